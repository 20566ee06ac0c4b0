"""Operators pause, cancel and move whatever order the lot falls on. Each returns whether there was one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tests.faults.pressure import time_passes
from tests.soak.schedule import Fault
from tests.soak.system import System
from tests.waiting import eventually
from triumvir.errors import StoreError
from triumvir.lifecycle import PAUSED, Action
from triumvir.store import operators, pauses
from triumvir.store.faults import DATABASE_ERRORS
from triumvir.store.statements import Connection, Row

BY: Final = "operator:soak"
WHY: Final = "soak"
WITHIN: Final = 120.0
"""Seconds in which the database is there again."""
MOVES: Final[dict[str, tuple[Action, ...]]] = {
    "error": ("retry", "retry", "retry", "compensate", "skip", "close"),
    "compensation_failed": ("resume", "resume", "resume", "resume", "close"),
}
_LIVE: Final = "('processing', 'pending', 'compensating')"
_RESTING: Final = "('error', 'compensation_failed')"
_T = TypeVar("_T")


async def persistently(system: System, work: Callable[[Connection], Awaitable[_T]]) -> _T:
    """What ``work`` does on a connection of its own, again until the database did not go away meanwhile."""

    async def attempt() -> list[_T]:
        try:
            async with operators.connect(system.cluster.settings) as connection:
                return [await work(connection)]
        except (StoreError, *DATABASE_ERRORS):
            return []

    return (await eventually(attempt, within=WITHIN, what="the database"))[0]


async def _drawn(connection: Connection, states: str, lot: float) -> Row | None:
    rows = await connection.fetch(
        f"select client, order_id, state, fence from orders where state in {states} order by no"
    )
    return rows[int(lot * len(rows))] if rows else None


async def _ask(connection: Connection, order: Row, action: Action, result: str | None = None) -> None:
    fence = None if action in ("pause", "unpause") else order["fence"]
    who, why = BY, WHY
    await operators.ask_move(
        connection,
        order["client"],
        order["order_id"],
        action,
        who=who,
        reason=why,
        fence=fence,
        result=result,
    )


async def pause_order(system: System, fault: Fault) -> bool:
    """For a while it does not move."""

    async def pause(connection: Connection) -> Row | None:
        if order := await _drawn(connection, _LIVE, fault.lot):
            await _ask(connection, order, "pause")
        return order

    paused = await persistently(system, pause)
    if paused is not None:
        await time_passes(fault.lasts)
        await persistently(system, lambda connection: _ask(connection, paused, "unpause"))
    return paused is not None


async def pause_workflow(system: System, fault: Fault) -> bool:
    """For a while none of its orders moves."""
    return await _pause(system, fault, "workflow")


async def pause_agent(system: System, fault: Fault) -> bool:
    """For a while it is sent nothing new."""
    return await _pause(system, fault, "agent")


async def _pause(system: System, fault: Fault, scope: pauses.Scope) -> bool:
    name = fault.target
    await persistently(system, lambda connection: pauses.pause(connection, scope, name, 0, BY, WHY))
    await time_passes(fault.lasts)
    await persistently(system, lambda connection: pauses.unpause(connection, scope, name, 0, BY, WHY))
    return True


async def cancel(system: System, fault: Fault) -> bool:
    """An order that is about to do something else."""

    async def ask(connection: Connection) -> bool:
        order = await _drawn(connection, _LIVE, fault.lot)
        if order is not None:
            await operators.ask_cancel(connection, order["client"], order["order_id"], BY, WHY)
        return order is not None

    return await persistently(system, ask)


async def move(system: System, fault: Fault) -> bool:
    """One that rests is tried again, undone, skipped over or closed."""

    async def ask(connection: Connection) -> bool:
        order = await _drawn(connection, _RESTING, fault.lot)
        if order is not None:
            actions = MOVES[order["state"]]
            action = actions[int(fault.lot * 1e6) % len(actions)]
            await _ask(connection, order, action, '{"by": "hand"}' if action == "skip" else None)
        return order is not None

    return await persistently(system, ask)


async def let_go(system: System) -> int:
    """Have every order go on that is still paused; how many were. (A pause that came late outlives its end.)"""

    async def ask(connection: Connection) -> int:
        rows = await connection.fetch("select client, order_id, fence from orders where held_by = $1", PAUSED)
        for row in rows:
            await _ask(connection, row, "unpause")
        return len(rows)

    return await persistently(system, ask)
