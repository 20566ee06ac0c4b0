"""Overdue orders: re-opened or given up, each expiry once, whoever else looks at the same time, and no faster than all
supervisors together may.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from triumvir.contracts.names import Direction
from triumvir.errors import StoreError
from triumvir.lifecycle import Broken, Event, Expired, Shown
from triumvir.runtime.applied import Applied, report
from triumvir.runtime.batches import run_batch
from triumvir.runtime.crash import crash_point
from triumvir.runtime.decisions import Decider
from triumvir.runtime.relay import Relay
from triumvir.settings import Settings
from triumvir.store.faults import DATABASE_ERRORS
from triumvir.store.session import Session
from triumvir.store.statements import Connection, Row, statement
from triumvir.telemetry import events, metrics
from triumvir.telemetry.logs import get_logger
from triumvir_supervisor.pace import Pace
from triumvir_supervisor.parking import Parking

PAGE: Final = 100
MOST_PAGES: Final = 50
"""Of one scan; the next one comes at the interval."""
PATIENCE_SECONDS: Final = 8.0
"""An order that was parked for so long is set aside."""
MOST_SHARERS: Final = 8
"""A page is chosen from so many pages at most, if there are so many supervisors."""
_FROM_THE_START: Final = (datetime(1970, 1, 1, tzinfo=UTC), 0)
log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Outlook:
    """Before a scan: supervisors that live, how many orders this one may move on, and whether there are any."""

    sharers: int
    allowance: int
    behind: bool
    crowded: bool


class Overdue:
    """Scans over locked orders past their deadline, a page at a time, the oldest first."""

    def __init__(
        self, session: Session, relay: Relay, decider: Decider, settings: Settings, page: int = PAGE
    ) -> None:
        self._session = session
        self._relay = relay
        self._decider = decider
        self._grace = settings.supervisor_grace / timedelta(seconds=1)
        self._backlog = settings.recovery_backlog
        self._pace = Pace(settings.recovery_rate, settings.recovery_limit)
        self._parking = Parking()
        self._recovered = 0
        self._page = page

    async def scan(self) -> bool:
        """Moves on what is overdue, as much as this process may now; whether it stopped because it may no more for
        the moment.
        """
        began = time.monotonic()
        outlook = await self._outlook()
        paced = await self._scan(outlook)
        metrics.SUPERVISOR_PASS_SECONDS.record(time.monotonic() - began)
        return paced and not outlook.crowded

    async def _outlook(self) -> Outlook:
        async with self._session.connection() as connection:
            row = await statement("recovery_outlook").row(connection, most=self._backlog)
        assert row is not None
        metrics.RECOVERY_LAG.set(row["lag"])
        sharers = max(1, row["supervisors"])
        room = self._backlog - row["waiting"]
        allowance = min(self._pace.allowance(sharers), room)
        return Outlook(sharers, allowance, behind=row["lag"] > self._grace, crowded=room <= 0)

    async def _scan(self, outlook: Outlook) -> bool:
        """Whether there was more than the allowance, or more than this one's share."""
        after, left, others = _FROM_THE_START, outlook.allowance, False
        for _ in range(MOST_PAGES):
            wanted = min(self._page, left)
            if wanted <= 0:
                return outlook.behind
            found = await self._read(after, wanted * min(outlook.sharers, MOST_SHARERS))
            if not found:
                return others
            others |= len(found) > wanted
            after = found[-1]["complete_by"], found[-1]["no"]
            left -= await self._recover_page(_share(found, wanted))
            if len(found) < wanted:
                return others
        return True

    async def _read(self, after: tuple[datetime, int], most: int) -> list[Row]:
        async with self._session.connection() as connection:
            rows = await statement("expired_orders").rows(
                connection, grace_seconds=self._grace, after=after[0], after_no=after[1], most=most
            )
        metrics.SUPERVISOR_PAGES.add(1)
        metrics.SUPERVISOR_ROWS.add(len(rows))
        return rows

    async def _recover_page(self, page: Sequence[Row]) -> int:
        """How many of them were moved on. One that cannot be is parked."""
        free = [row for row in page if not self._parking.holds(row["no"])]
        self._recovered = 0
        if free:
            await self._recover_or_park(free)
        return self._recovered

    async def _recover_or_park(self, rows: Sequence[Row]) -> None:
        """An error that is not the database's is some order's own: it is looked for by halves."""
        try:
            await run_batch("overdue", rows, self._recover, self._set_aside)
        except (StoreError, *DATABASE_ERRORS):
            raise
        except Exception as error:  # noqa: BLE001 - one order's fault must not touch its neighbours
            if len(rows) > 1:
                half = len(rows) // 2
                await self._recover_or_park(rows[:half])
                await self._recover_or_park(rows[half:])
                return
            await self._park(rows[0], error)

    async def _park(self, row: Row, error: Exception) -> None:
        """It is tried again later and later; what does not pass by itself rests with an alert, if that can be done."""
        seconds = self._parking.park(row["no"])
        log.error(
            events.RECOVERY_FAILED, order_no=row["no"], error=str(error), seconds=seconds, exc_info=error
        )
        if seconds >= PATIENCE_SECONDS:
            try:
                await self._set_aside(row, error)
            except (StoreError, *DATABASE_ERRORS):
                raise
            except Exception:  # it stays parked
                log.exception(events.RECOVERY_FAILED, order_no=row["no"], error="it cannot be set aside")

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
                happened: dict[int, list[Event]] = {no: [Broken(problem or "")] for no in mine}
                if problem is None:
                    happened = await self._expired(connection, [row for row in page if row["no"] in mine])
                applied = await self._decider.apply(connection, happened)
            crash_point("supervisor.before_commit")
        crash_point("supervisor.after_commit")
        if applied is not None:
            await self._publish(applied)

    async def _set_aside(self, row: Row, error: Exception) -> None:
        await self._recover([row], f"{type(error).__name__}: {error}")

    async def _expired(self, connection: Connection, rows: Sequence[Row]) -> dict[int, list[Event]]:
        """What the agents' inbox says of each request, once no agent can begin it any more."""
        undoing = [row["no"] for row in rows if row["state"] == "compensating"]
        undos = await statement("undos_out").rows(connection, nos=undoing) if undoing else []
        fences = {row["no"]: row["fence"] for row in rows}
        asked: list[tuple[int, int, Direction]] = [
            *((row["no"], row["step"], "do") for row in rows if row["state"] != "compensating"),
            *((row["no"], row["step_no"], "undo") for row in undos),
        ]
        closed = await statement("close_expired").rows(
            connection,
            nos=[no for no, _, _ in asked],
            step_nos=[step_no for _, step_no, _ in asked],
            directions=[direction for _, _, direction in asked],
            fences=[fences[no] for no, _, _ in asked],
        )
        shown: dict[int, list[Row]] = {row["no"]: [] for row in rows}
        for row in closed:
            shown[row["no"]].append(row)
        return {row["no"]: [_expiry(row, shown[row["no"]])] for row in rows}

    async def _publish(self, applied: Applied) -> None:
        report(applied)
        decisions = list(applied.decisions)
        self._recovered += len(decisions)
        self._pace.spend(len(decisions))
        for before, decision in decisions:
            self._parking.forget(before.no)
            metrics.RECOVERIES.add(1, decision.record.state)
            log.info(
                events.ORDER_REOPENED,
                order=before.key,
                trace=(before.trace or "")[3:35],
                state=decision.record.state,
                why=decision.log[-1].why if decision.log else "nothing to do",
            )
        await self._relay.send(applied.messages, applied.outbox_id, "supervisor.after_publish")


def _share(rows: Sequence[Row], wanted: int) -> Sequence[Row]:
    """So many of them, in their order: other supervisors, who read the same rows now, take others."""
    if len(rows) <= wanted:
        return rows
    return [rows[place] for place in sorted(random.sample(range(len(rows)), wanted))]


def _expiry(row: Row, inbox: Sequence[Row]) -> Expired:
    """What is known of the request, or of each undo; a wait for a signal has none."""
    shown = [Shown(each["step_no"], each["fence"] == row["fence"], each["calls"]) for each in inbox]
    if row["state"] == "compensating":
        return Expired(begun=False, undos=tuple(shown))
    if not shown:
        return Expired(begun=False)
    recorded = shown[0].begun and inbox[0]["state"] in ("succeeded", "failed")
    return Expired(shown[0].begun, shown[0].calls, recorded=recorded)
