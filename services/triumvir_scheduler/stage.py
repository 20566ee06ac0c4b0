"""What every stage of the scheduler is made of: its own connection, one transaction a batch, then the messages."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from triumvir.lifecycle import Event
from triumvir.runtime.crash import CrashPoint, crash_point
from triumvir.runtime.decisions import Applied, Decider, report
from triumvir.runtime.relay import Relay
from triumvir.store.session import Session
from triumvir.store.statements import Connection
from triumvir.telemetry import metrics
from triumvir_scheduler.windows import Reservation, Windows


@dataclass(slots=True)
class Work:
    """One transaction in the making."""

    connection: Connection
    reservation: Reservation
    applied: list[Applied] = field(default_factory=list)


class Stage:
    """One kind of batch. Nothing leaves before its commit, so a failed batch may be run again."""

    def __init__(self, name: str, session: Session, relay: Relay, decider: Decider, windows: Windows) -> None:
        self.name = name
        self._session = session
        self._relay = relay
        self._decider = decider
        self.windows = windows

    @asynccontextmanager
    async def work(self, before: CrashPoint, after: CrashPoint, published: CrashPoint) -> AsyncIterator[Work]:
        """A transaction; what was applied in it is counted and published once it is committed."""
        began = time.monotonic()
        async with self._relay.transaction(self._session) as connection:
            work = Work(connection, self.windows.reserve())
            yield work
            crash_point(before)
        crash_point(after)
        metrics.COMMIT_SECONDS.record(time.monotonic() - began, self.name)
        for applied in work.applied:
            self.windows.note(applied)
            report(applied, self.name)
            await self._relay.send(applied.messages, applied.outbox_id, published)

    async def apply(
        self, work: Work, events: Mapping[int, Sequence[Event]], *, continuing: bool = False
    ) -> Applied | None:
        """Lets the heart decide on locked orders; None if there are none."""
        if not events:
            return None
        metrics.BATCH_SIZE.record(len(events), self.name)
        reason = work.reservation.reason_to_continue if continuing else work.reservation.reason_to_hold
        applied = await self._decider.apply(work.connection, events, reason)
        work.applied.append(applied)
        return applied
