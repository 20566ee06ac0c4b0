"""Overdue orders: re-opened or given up, each expiry once, whoever else looks at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from triumvir.contracts.names import Direction
from triumvir.lifecycle import Broken, Event, Expired
from triumvir.runtime.applied import Applied, report
from triumvir.runtime.batches import run_batch
from triumvir.runtime.crash import crash_point
from triumvir.runtime.decisions import Decider
from triumvir.runtime.relay import Relay
from triumvir.settings import Settings
from triumvir.store.session import Session
from triumvir.store.statements import Connection, Row, statement
from triumvir.telemetry import events, metrics
from triumvir.telemetry.logs import get_logger

PAGE: Final = 100
_FROM_THE_START: Final = (datetime(1970, 1, 1, tzinfo=UTC), 0)
log = get_logger(__name__)


class Overdue:
    """One scan over locked orders past their deadline, a page at a time."""

    def __init__(
        self, session: Session, relay: Relay, decider: Decider, settings: Settings, page: int = PAGE
    ) -> None:
        self._session = session
        self._relay = relay
        self._decider = decider
        self._grace = settings.supervisor_grace / timedelta(seconds=1)
        self._page = page

    async def scan(self) -> int:
        """Handles every order that is overdue now; how many were."""
        handled = 0
        after = _FROM_THE_START
        while True:
            page = await self._read(after)
            if page:
                await run_batch("overdue", page, self._recover, self._set_aside)
                handled += len(page)
                after = page[-1]["complete_by"], page[-1]["no"]
            if len(page) < self._page:
                return handled

    async def _read(self, after: tuple[datetime, int]) -> list[Row]:
        async with self._session.connection() as connection:
            return await statement("expired_orders").rows(
                connection, grace_seconds=self._grace, after=after[0], after_no=after[1], most=self._page
            )

    async def _recover(self, page: Sequence[Row], problem: str | None = None) -> None:
        """Locks those still exactly as they were read, closes their requests, decides (or, with a ``problem``,
        sets them aside).
        """
        applied: Applied | None = None
        async with self._relay.transaction(self._session) as ride:
            connection = ride.connection
            locked = await statement("lock_expired").rows(
                connection,
                nos=[row["no"] for row in page],
                states=[row["state"] for row in page],
                locks=[row["locked_by"] for row in page],
                deadlines=[row["complete_by"] for row in page],
            )
            mine = {row["no"] for row in locked}
            if mine:
                expired = await self._expired(connection, [row for row in page if row["no"] in mine])
                broken: dict[int, list[Event]] = {no: [Broken(problem or "")] for no in mine}
                applied = await self._decider.apply(connection, broken if problem else expired)
            crash_point("supervisor.before_commit")
        crash_point("supervisor.after_commit")
        if applied is not None:
            await self._publish(applied)

    async def _set_aside(self, row: Row, error: Exception) -> None:
        await self._recover([row], f"{type(error).__name__}: {error}")

    async def _expired(self, connection: Connection, rows: Sequence[Row]) -> dict[int, list[Event]]:
        """What the agents' inbox says of each request, once no agent can begin it any more."""
        directions: list[Direction] = ["undo" if row["state"] == "compensating" else "do" for row in rows]
        closed = await statement("close_expired").rows(
            connection,
            nos=[row["no"] for row in rows],
            step_nos=[row["step"] for row in rows],
            directions=directions,
            fences=[row["fence"] for row in rows],
        )
        inbox = {row["no"]: row for row in closed}
        return {
            row["no"]: [
                Expired(begun=inbox[row["no"]]["fence"] == row["fence"], calls=inbox[row["no"]]["calls"])
            ]
            for row in rows
        }

    async def _publish(self, applied: Applied) -> None:
        report(applied)
        for before, decision in applied.decisions:
            metrics.RECOVERIES.add(1, decision.record.state)
            log.info(
                events.ORDER_REOPENED,
                order=before.key,
                trace=(before.trace or "")[3:35],
                state=decision.record.state,
                why=decision.log[-1].why if decision.log else "nothing to do",
            )
        await self._relay.send(applied.messages, applied.outbox_id, "supervisor.after_publish")
