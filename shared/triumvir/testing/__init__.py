"""For tests: rehearsals of workflows and agents, trials of agents, and the auditor, which proves or disproves what
Triumvir promises.
"""

from triumvir.testing.auditor import audit
from triumvir.testing.evidence import Call, Effect, Evidence, Ledger
from triumvir.testing.findings import Finding, describe
from triumvir.testing.rehearsal import Rehearsal
from triumvir.testing.rehearsing.outcome import Outcome, RehearsedCall
from triumvir.testing.rehearsing.plan import FaultPlan
from triumvir.testing.trial import AgentTrial, TrialLine, TrialReport

__all__ = [
    "AgentTrial",
    "Call",
    "Effect",
    "Evidence",
    "FaultPlan",
    "Finding",
    "Ledger",
    "Outcome",
    "Rehearsal",
    "RehearsedCall",
    "TrialLine",
    "TrialReport",
    "audit",
    "describe",
]
