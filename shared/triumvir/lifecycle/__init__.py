"""The pure heart: states, arrows, decisions and retry maths. No database, broker, clock or chance in here."""

from triumvir.lifecycle.decide import decide, set_aside
from triumvir.lifecycle.draft import HoldReason, Moment, Policy
from triumvir.lifecycle.events import (
    Action,
    Broken,
    CancelRequested,
    Claimed,
    Event,
    Expired,
    OperatorAsked,
    Replied,
    RetryDue,
)
from triumvir.lifecycle.inputs import argument
from triumvir.lifecycle.record import (
    Decision,
    LogRow,
    OrderRecord,
    Send,
    SendAlert,
    SendRequest,
    SendStatus,
    StepRecord,
)
from triumvir.lifecycle.states import ARROWS, END, LIVE, RESTING, STATUS_OF_STATE, State, is_legal

__all__ = [
    "ARROWS",
    "END",
    "LIVE",
    "RESTING",
    "STATUS_OF_STATE",
    "Action",
    "Broken",
    "CancelRequested",
    "Claimed",
    "Decision",
    "Event",
    "Expired",
    "HoldReason",
    "LogRow",
    "Moment",
    "OperatorAsked",
    "OrderRecord",
    "Policy",
    "Replied",
    "RetryDue",
    "Send",
    "SendAlert",
    "SendRequest",
    "SendStatus",
    "State",
    "StepRecord",
    "argument",
    "decide",
    "is_legal",
    "set_aside",
]
