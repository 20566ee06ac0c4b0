"""Why an order does not move, in words: since when, by whom, and what to type."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from rich.markup import escape

from triumvir.cli.output import moment, until
from triumvir.contracts.names import order_key
from triumvir.lifecycle import PAUSED, RESTING
from triumvir.store.documents import AWAY
from triumvir.store.pauses import REASON, Pause
from triumvir.store.reads import OrderDetail, OrderRow, OrderSummary

_OVER: Final = "that pause is over; supervisors let its orders go on, some at a time"


def standing(detail: OrderDetail, agent: str | None) -> Iterator[str]:
    """Lines of rich text; ``agent`` is that of the step the order is at. None of them if nothing holds it."""
    order = detail.order
    if order.paused_at is not None:
        yield _paused(order)
    elif order.held_by is not None:
        pause = next((each for each in detail.pauses if each.held_by == order.held_by), None)
        meaning = _stands_still(pause, order) if pause else escape(_meaning(order.held_by))
        held = f"[yellow]held by {escape(order.held_by)}[/yellow]{_since(order.held_at, order.now)}"
        yield f"{held}: {meaning}; nothing is counted against it"
    elif order.ended_at is None and order.state not in RESTING:
        for pause in detail.pauses:
            if pause.scope == "workflow" or pause.name == agent:
                yield f"[yellow]{_stands_still(pause, order)}[/yellow]; {_then(order)}"


def waits_for(order: OrderSummary) -> str | None:
    """In one cell of a list, not escaped; None if nothing holds it."""
    if order.paused_at is not None and order.paused_by is not None:
        return f"its pause by {order.paused_by}, since {moment(order.paused_at)}"
    if order.held_by is not None and order.held_at is not None:
        return f"{order.held_by}, since {moment(order.held_at)}"
    return order.held_by


def what(pause: Pause) -> str:
    """``workflow trade``, ``workflow trade v2``, ``agent payments``."""
    return f"{pause.scope} {pause.name}{f' v{pause.version}' if pause.version else ''}"


def unpausing(pause: Pause) -> str:
    """What to type to let it go on."""
    version = f" --version {pause.version}" if pause.version else ""
    return f"triumvir {pause.scope}s unpause {pause.name}{version}"


def _paused(order: OrderRow) -> str:
    key = order_key(order.client, order.order_id)
    by = f"[yellow]paused{_since(order.paused_at, order.now)}, by {escape(order.paused_by or '')}[/yellow]"
    then = "; nothing is counted against it meanwhile"
    if order.locked_by is not None:
        then = "; what is under way runs to its answer or deadline, then it is held"
    elif order.state in RESTING:
        then = "; if it is moved, it is held"
    return f"{by}{then}; to go on: triumvir orders unpause {escape(key)}"


def _stands_still(pause: Pause, order: OrderRow) -> str:
    since = _since(pause.at, order.now)
    by = f"by {escape(pause.who)}: {escape(pause.reason)}"
    return f"{what(pause)} is paused{since}, {by}; to go on: {unpausing(pause)}"


def _then(order: OrderRow) -> str:
    if order.locked_by is None:
        return "it is held at its next claim"
    return "what is under way runs to its answer or deadline, then it is held"


def _since(at: datetime | None, now: datetime) -> str:
    return "" if at is None else f" since {moment(at)} ({until(at, now)})"


def _meaning(reason: str) -> str:
    kind, _, name = reason.partition(":")
    if reason == AWAY:
        return "the database of the order documents does not answer; it goes on once that does"
    if reason.startswith(REASON) and reason != PAUSED:
        return _OVER
    return {
        "agent": f"no instance of agent {name} is live; it goes on once one is",
        "operation": f"no live instance offers {name}; it goes on once one does",
        "window": f"agent {name} has no room; it goes on as its calls are answered",
    }.get(kind, "it goes on once that is gone")
