"""What ``triumvir doctor`` looks at. Everything is read; nothing that runs is declared, changed or disturbed."""

from __future__ import annotations

from triumvir.cli.broker_findings import look_at_broker
from triumvir.cli.database_findings import look_at_databases
from triumvir.cli.findings import Finding
from triumvir.cli.service_findings import Needs
from triumvir.settings import Settings


async def diagnose(settings: Settings) -> list[Finding]:
    """Every finding, in the order in which things depend on each other."""
    needs = Needs()
    findings = await look_at_databases(settings, needs)
    return findings + await look_at_broker(settings, needs)
