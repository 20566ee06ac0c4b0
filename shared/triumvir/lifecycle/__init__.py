"""The pure heart: states, arrows, decisions and retry maths. No database, broker, clock or chance in here."""

from triumvir.lifecycle.account import account_summary, undo_account
from triumvir.lifecycle.course import ahead
from triumvir.lifecycle.decide import decide, set_aside
from triumvir.lifecycle.draft import PAUSED, HoldReason, Moment
from triumvir.lifecycle.events import (
    Action,
    Aged,
    AgedKind,
    Broken,
    CancelRequested,
    Claimed,
    Event,
    Expired,
    OperatorAsked,
    Replied,
    RetryDue,
    Revived,
    Shown,
    Signalled,
)
from triumvir.lifecycle.inputs import argument
from triumvir.lifecycle.operators import operator_words
from triumvir.lifecycle.plan import Bounds, Plan, planned
from triumvir.lifecycle.policies import ANY, Bound, PolicyLine, Setting, Value
from triumvir.lifecycle.policy import Policy, binding_lines, definition_lines
from triumvir.lifecycle.record import (
    Decision,
    LogRow,
    OrderRecord,
    Send,
    SendAlert,
    SendRequest,
    SendStatus,
    StepRecord,
    UnderWay,
)
from triumvir.lifecycle.secrecy import HIDDEN
from triumvir.lifecycle.signals import signal_words
from triumvir.lifecycle.states import ARROWS, END, LIVE, RESTING, STATUS_OF_STATE, State, is_legal
from triumvir.lifecycle.waiting import waiting_step

__all__ = [
    "ANY",
    "ARROWS",
    "END",
    "HIDDEN",
    "LIVE",
    "PAUSED",
    "RESTING",
    "STATUS_OF_STATE",
    "Action",
    "Aged",
    "AgedKind",
    "Bound",
    "Bounds",
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
    "Plan",
    "Policy",
    "PolicyLine",
    "Replied",
    "RetryDue",
    "Revived",
    "Send",
    "SendAlert",
    "SendRequest",
    "SendStatus",
    "Setting",
    "Shown",
    "Signalled",
    "State",
    "StepRecord",
    "UnderWay",
    "Value",
    "account_summary",
    "ahead",
    "argument",
    "binding_lines",
    "decide",
    "definition_lines",
    "is_legal",
    "operator_words",
    "planned",
    "set_aside",
    "signal_words",
    "undo_account",
    "waiting_step",
]
