"""From the status an order stands at to what its client gets: a result, or the error that says why not."""

from __future__ import annotations

from typing import Any, Final

from triumvir.contracts.messages import Status, StatusName
from triumvir.errors import (
    OrderCancelled,
    OrderClosed,
    OrderCompensated,
    OrderCompensationFailed,
    OrderError,
    OrderHalted,
    OrderRejected,
    UnknownOrder,
)

REFUSALS: Final[frozenset[StatusName]] = frozenset({"rejected", "unknown_order"})
"""They have number 0 and end only a stream that has nothing else."""
ENDS: Final[frozenset[StatusName]] = frozenset(
    {"completed", "compensated", "cancelled", "closed", "rejected", "unknown_order"}
)
"""After these a stream of statuses ends."""
ANSWERS: Final[frozenset[StatusName]] = frozenset({"cancel_refused", "signalled", "signal_refused"})
"""They say what came of something that was asked, and not where the order stands."""
RESTS: Final[frozenset[StatusName]] = frozenset({"failed", "compensation_failed"})
"""Not final: an operator decides how it goes on."""

_ERRORS: Final[dict[StatusName, tuple[type[OrderError], str]]] = {
    "compensated": (OrderCompensated, "was undone as a whole"),
    "cancelled": (OrderCancelled, "was cancelled before anything was begun"),
    "closed": (OrderClosed, "was closed by an operator"),
    "failed": (OrderHalted, "rests until an operator decides"),
    "compensation_failed": (OrderCompensationFailed, "could not be undone; an operator decides"),
    "unknown_order": (UnknownOrder, "is not known"),
}


def result_of(key: str, status: Status, cause: str | None = None) -> Any:
    """The last step's result (a JSON value) if ``status`` says completed; else its error is raised.

    ``status`` is one of :data:`ENDS` or :data:`RESTS`; ``key`` names the order; ``cause`` is why it was undone.
    """
    if status.status == "completed":
        return None if status.result is None else status.result.value
    if status.status == "rejected":
        raise _rejected(key, status)
    error, what = _ERRORS[status.status]
    why = (cause if status.status == "compensated" else None) or status.detail
    raise error(f"order {key} {what}{f': {why}' if why else ''}", status)


def _rejected(key: str, status: Status) -> OrderRejected:
    """The detail of a refusal begins with its reason: ``conflict: order_id: ...``."""
    reason, _, detail = (status.detail or "unknown: no reason was given").partition(": ")
    return OrderRejected(
        f"order {key} was rejected: {reason}: {detail}", status, reason=reason, detail=detail
    )
