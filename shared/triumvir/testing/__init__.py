"""For tests, demo and soak: the auditor, which proves or disproves what Triumvir promises."""

from triumvir.testing.auditor import audit
from triumvir.testing.evidence import Call, Effect, Evidence, Ledger
from triumvir.testing.findings import Finding, describe

__all__ = ["Call", "Effect", "Evidence", "Finding", "Ledger", "audit", "describe"]
