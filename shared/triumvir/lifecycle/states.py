"""The states of an order and the only arrows between them. The schema's trigger and the docs hold the same table."""

from __future__ import annotations

from typing import Final, Literal

from triumvir.contracts.messages import StatusName

State = Literal[
    "pending", "processing", "compensating",
    "error", "compensation_failed",
    "processed", "compensated", "cancelled", "closed",
]  # fmt: skip
StepState = Literal["running", "completed", "failed", "skipped", "waiting", "signalled"]
UndoState = Literal["undoing", "undone", "undo_failed"]

LIVE: Final[frozenset[State]] = frozenset({"pending", "processing", "compensating"})
RESTING: Final[frozenset[State]] = frozenset({"error", "compensation_failed"})
END: Final[frozenset[State]] = frozenset({"processed", "compensated", "cancelled", "closed"})

ARROWS: Final[dict[State, frozenset[State]]] = {
    "pending": frozenset({"processing", "processed", "cancelled", "compensating", "error"}),
    "processing": frozenset({"pending", "processed", "error", "compensating", "cancelled"}),
    "compensating": frozenset({"compensated", "compensation_failed"}),
    "error": frozenset({"pending", "compensating", "closed"}),
    "compensation_failed": frozenset({"compensating", "closed"}),
    "processed": frozenset(),
    "compensated": frozenset({"compensating"}),
    "cancelled": frozenset({"compensating"}),
    "closed": frozenset(),
}

STATUS_OF_STATE: Final[dict[State, StatusName]] = {
    "processed": "completed",
    "compensated": "compensated",
    "cancelled": "cancelled",
    "closed": "closed",
    "error": "failed",
    "compensation_failed": "compensation_failed",
    "compensating": "compensating",
}


def is_legal(before: State, after: State) -> bool:
    """Whether an order may move so. Staying is always legal."""
    return before == after or after in ARROWS[before]
