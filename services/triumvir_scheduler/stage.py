"""What every stage of the scheduler is made of: its own connection, one transaction a batch, then the messages."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from triumvir.lifecycle import Broken, Event, OrderRecord
from triumvir.runtime.applied import Applied, report
from triumvir.runtime.batches import run_batch
from triumvir.runtime.crash import CrashPoint, crash_point
from triumvir.runtime.decisions import Decider
from triumvir.runtime.relay import Relay, Ride
from triumvir.store import orders
from triumvir.store.faults import Fault, fault
from triumvir.store.orders import Found, Locked
from triumvir.store.session import Store
from triumvir.store.statements import Connection
from triumvir.telemetry import metrics
from triumvir_scheduler.claimable import Claimable
from triumvir_scheduler.unheard import Unheard
from triumvir_scheduler.windows import Reservation, Windows

Point = Literal["claim", "reply", "timer", "command"]
_CRASH_POINTS: Final[Mapping[Point, tuple[CrashPoint, CrashPoint, CrashPoint]]] = {
    "claim": (
        "scheduler.claim.before_commit",
        "scheduler.claim.after_commit",
        "scheduler.claim.after_publish",
    ),
    "reply": (
        "scheduler.reply.before_commit",
        "scheduler.reply.after_commit",
        "scheduler.reply.after_publish",
    ),
    "timer": (
        "scheduler.timer.before_commit",
        "scheduler.timer.after_commit",
        "scheduler.timer.after_publish",
    ),
    "command": (
        "scheduler.command.before_commit",
        "scheduler.command.after_commit",
        "scheduler.command.after_publish",
    ),
}


@dataclass(slots=True)
class Work:
    """One transaction in the making."""

    ride: Ride
    reservation: Reservation
    applied: list[Applied] = field(default_factory=list)

    @property
    def connection(self) -> Connection:
        return self.ride.connection


@dataclass(frozen=True, slots=True)
class Shared:
    """What the stages of one process have in common. ``claimable`` is set when there is something to claim."""

    store: Store
    relay: Relay
    decider: Decider
    windows: Windows
    claimable: Claimable = field(default_factory=Claimable)
    unheard: Unheard = field(default_factory=Unheard)


class Stage:
    """One kind of batch. Nothing leaves before its commit, so a failed batch may be run again."""

    def __init__(self, name: str, shared: Shared) -> None:
        self.name = name
        self.windows = shared.windows
        self._session = shared.store.session(name)
        self._relay = shared.relay
        self._decider = shared.decider
        self._decider.paused = shared.windows.paused
        self.payloads = shared.decider.payloads
        self.claimable = shared.claimable
        self.unheard = shared.unheard

    def look(self) -> AbstractAsyncContextManager[Connection]:
        """The stage's connection, to look for work: each statement is its own transaction."""
        return self._session.connection()

    @asynccontextmanager
    async def work(self, point: Point) -> AsyncIterator[Work]:
        """A transaction; what was applied in it is counted and published once it is committed."""
        before, after, published = _CRASH_POINTS[point]
        began = time.monotonic()
        work: Work | None = None
        try:
            async with self._relay.transaction(self._session) as ride:
                work = Work(ride, self.windows.reserve())
                yield work
                crash_point(before)
        except Exception:
            self.unheard.note(work.applied if work else ())
            raise
        crash_point(after)
        metrics.COMMIT_SECONDS.record(time.monotonic() - began, self.name)
        for applied in work.applied:
            await self._publish(applied, published)

    async def at_once(
        self,
        point: Point,
        events: Mapping[int, Event],
        fits: Callable[[Found], bool] = lambda found: True,
        *,
        continuing: bool = False,
    ) -> bool:
        """Decides on a few orders without locking them: the one write is the transaction, and none of it stands if one
        of them moved since it was read. False: nothing was done, lock them first.

        ``fits`` says of what was read whether it may be decided on so; orders that do not exist never may.
        """
        before, after, published = _CRASH_POINTS[point]
        began = time.monotonic()
        reservation = self.windows.reserve()
        reason = reservation.reason_to_continue if continuing else reservation.reason_to_hold
        applied: Applied | None = None
        try:
            async with self._relay.statement(self._session) as ride:
                found = await self._few(ride.connection, sorted(events))
                if found is None or len(found.records) < len(events) or not fits(found):
                    return False
                in_turn = {no: [events[no]] for no in found.records}
                applied = await self._decider.decide(ride.connection, found, in_turn, reason)
                if not all(decision.changed for _, decision in applied.decisions):
                    return False  # no write would tell that one was remembered as it is no more
                crash_point(before)
                await self._decider.write(ride.connection, applied, confirmed=ride.take())
        except Exception as error:
            if fault(error) is not Fault.AGAIN:
                self.unheard.note([applied] if applied else ())
                raise
            self._decider.recent.forget(events)
            metrics.BATCH_REPEATS.add(1, self.name)
            return False
        crash_point(after)
        metrics.BATCH_SIZE.record(len(events), self.name)
        metrics.COMMIT_SECONDS.record(time.monotonic() - began, self.name)
        await self._publish(applied, published)
        return True

    async def _few(self, connection: Connection, nos: Sequence[int]) -> Found | None:
        """What these orders are, by this process' memory or by a look at them; whether it still holds, their write
        will tell.
        """
        recent = self._decider.recent
        now, records = recent.now(), recent.all_of(nos)
        if now is not None and records is not None:
            return Found(now, records, {}, frozenset())
        return await orders.read(connection, nos)

    async def _publish(self, applied: Applied, published: CrashPoint) -> None:
        """Starts to publish what was committed, remembers it, and counts it."""
        try:
            self._decider.recent.keep(decision.record for _, decision in applied.decisions)
            self.windows.note(applied)
            await self._relay.send(applied.messages, applied.outbox_id, published)
            report(applied, of_replies=self.name == "replies")
            if any(_is_claimable(decision.record) for _, decision in applied.decisions):
                self.claimable.set()
        except Exception:
            self.unheard.note([applied])
            raise

    async def apply(
        self,
        work: Work,
        events: Mapping[int, Sequence[Event]],
        *,
        continuing: bool = False,
        locked: Locked | None = None,
    ) -> Applied | None:
        """Lets the heart decide on locked orders; None if there are none. ``locked``: what locking them told."""
        if not events:
            return None
        metrics.BATCH_SIZE.record(len(events), self.name)
        reason = work.reservation.reason_to_continue if continuing else work.reservation.reason_to_hold
        confirmed = work.ride.take()
        applied = await self._decider.apply(
            work.connection, events, reason, confirmed=confirmed, locked=locked
        )
        work.applied.append(applied)
        return applied

    async def fetch(self, nos: Iterable[int]) -> bool:
        """Reads documents that are in another database and not here yet, while nothing is locked; whether any were."""
        missing = self.payloads.to_fetch(nos)
        if missing:
            async with self.look() as connection:
                await self.payloads.fetch(connection, missing)
        return bool(missing)

    async def each(self, point: Point, nos: Sequence[int], event: Event) -> None:
        """Applies an event to these orders again after a batch with them was refused: halved, until the order
        that Postgres refuses stands alone. It is set aside as broken, in a transaction of its own.
        """

        async def run(part: Sequence[int]) -> None:
            async with self.work(point) as work:
                locked = await orders.lock(work.connection, part)
                await self.apply(work, {no: [event] for no in locked.histories}, locked=locked)

        async def set_aside(no: int, error: Exception) -> None:
            async with self.work(point) as work:
                locked = await orders.lock(work.connection, [no])
                problem = Broken(f"{type(error).__name__}: {error}")
                await self.apply(work, {no: [problem] for no in locked.histories}, locked=locked)

        await run_batch(self.name, nos, run, set_aside)


def is_refused(error: Exception) -> bool:
    """Whether Postgres refused a value of one of the rows."""
    return fault(error) is Fault.DATA


def _is_claimable(record: OrderRecord) -> bool:
    waits = record.held_by is not None or record.not_before is not None
    return record.state in ("pending", "compensating") and record.locked_by is None and not waits
