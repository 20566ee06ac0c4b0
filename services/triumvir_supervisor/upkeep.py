"""Upkeep: what processes that are gone left behind, and what nobody asks for any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final
from uuid import UUID

from triumvir.settings import Settings
from triumvir.store.session import Session
from triumvir.store.statements import statement
from triumvir.telemetry import metrics

EVERY: Final = timedelta(seconds=10)
_SILENT_LEASES: Final = 4
"""A row is removed after so many lease times of silence; until then it shows who was lost."""
MOST_FORGOTTEN: Final = 5_000
"""Of what operators did, in one statement; what is left goes with the next steps."""

_UNREVIVED_SECONDS: Final = 86_400.0
"""Until then a supervisor may still come that brings forward what it sent; a deadline is rarely as long."""


class Upkeep:
    """Small, repeatable clean-ups, each in a transaction of its own."""

    def __init__(
        self, session: Session, settings: Settings, instance: UUID, watch: Callable[[], Awaitable[None]]
    ) -> None:
        self._watch = watch
        self._session = session
        self._instance = instance
        self._reasons: set[str] = set()
        self._queues: set[str] = set()
        self._scopes: set[str] = set()
        self._kept = settings.operator_log_retention / timedelta(seconds=1)
        self._silence = settings.instance_lease / timedelta(seconds=1) * _SILENT_LEASES

    async def step(self) -> bool:
        """Tidies up, counts what waits for people, and watches the dead letters of agents that are new."""
        await self._watch()
        await self.tidy()
        await self._count_held()
        await self._count_letters()
        await self._count_pauses()
        await self._look_at_transactions()
        return False

    async def tidy(self) -> None:
        """Removes lapsed leases, commands without an order, marks of deliveries that never came again, and what
        operators did long ago.
        """
        async with self._session.transaction() as connection:
            await statement("remove_lapsed_instances").rows(
                connection, grace_seconds=self._silence, unrevived_seconds=self._silence + _UNREVIVED_SECONDS
            )
            await statement("fold_admission").rows(connection, instance=self._instance)
        async with self._session.connection() as connection:
            await statement("forget_commands").rows(connection)
            await statement("forget_marks").rows(connection)
        await self._forget_operators()

    async def _forget_operators(self) -> None:
        """What operators did is remembered for its retention. A bulk goes before what it selected, so that nobody who
        runs it meets the half of it.
        """
        async with self._session.connection() as connection:
            await statement("forget_bulks").rows(connection, seconds=self._kept)
            await statement("forget_bulk_orders").value(connection, most=MOST_FORGOTTEN)
            await statement("forget_pause_log").rows(connection, seconds=self._kept, most=MOST_FORGOTTEN)
            await statement("forget_reveals").rows(connection, seconds=self._kept, most=MOST_FORGOTTEN)

    async def _count_held(self) -> None:
        async with self._session.connection() as connection:
            rows = await statement("count_held").rows(connection)
        held = {row["held_by"]: row["orders"] for row in rows}
        self._reasons |= held.keys()
        for reason in self._reasons:
            metrics.ORDERS_HELD.set(held.get(reason, 0), reason)

    async def _count_pauses(self) -> None:
        async with self._session.connection() as connection:
            rows = await statement("count_pauses").rows(connection)
        paused = {row["scope"]: row["pauses"] for row in rows}
        self._scopes |= paused.keys()
        for scope in self._scopes:
            metrics.PAUSES.set(paused.get(scope, 0), scope)

    async def _look_at_transactions(self) -> None:
        async with self._session.connection() as connection:
            row = await statement("oldest_transaction").row(connection)
        metrics.OLDEST_TRANSACTION.set(0.0 if row is None else row["seconds"])

    async def _count_letters(self) -> None:
        async with self._session.connection() as connection:
            rows = await statement("count_open_dead_letters").rows(connection)
        still_open = {row["queue"]: row["letters"] for row in rows}
        self._queues |= still_open.keys()
        for queue in self._queues:
            metrics.DEAD_LETTERS_OPEN.set(still_open.get(queue, 0), queue)
