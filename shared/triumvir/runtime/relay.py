"""The outbox relay: what a commit has to publish is sent at once; the row that says so goes when all is confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from triumvir.broker import Outcome, OutMessage, Publisher, Publishing
from triumvir.contracts.messages import Status
from triumvir.runtime.crash import CrashPoint, crash_point
from triumvir.store.session import Session
from triumvir.store.statements import Connection, statement
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

IDLE_SECONDS: Final = 0.25
"""With no commit to ride in, confirmed rows are deleted after this."""
AGAIN_SECONDS: Final = 1.0
"""With a deletion that failed it is tried again after this."""
MOST_IN_FLIGHT: Final = 32
"""Batches whose confirms are awaited at once; the next one waits."""

log = get_logger(__name__)


class Ride:
    """A transaction, and the confirmed outbox rows that are to be deleted in it."""

    def __init__(self, connection: Connection, confirmed: Sequence[int]) -> None:
        self.connection = connection
        self._confirmed = confirmed

    def take(self) -> Sequence[int]:
        """The rows, for whoever deletes them in this transaction; nobody else will."""
        taken, self._confirmed = self._confirmed, ()
        return taken


class Relay:
    """Publishes for one process. A message that is not confirmed stays in its outbox row, for a sweep."""

    def __init__(self, publisher: Publisher, session: Session) -> None:
        self._publisher = publisher
        self._session = session
        self._confirmed: list[int] = []
        self._in_flight: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MOST_IN_FLIGHT)
        self._flushing: asyncio.TimerHandle | None = None
        self._flushes: set[asyncio.Task[None]] = set()
        self.settled: Callable[[], None] = lambda: None

    async def send(
        self, messages: Sequence[OutMessage], outbox_id: int | None, after: CrashPoint | None = None
    ) -> None:
        """Starts publishing what was just committed; returns once there is room for the next batch. As a rule it is
        on its way then, before whatever caused it is acknowledged.
        """
        if not messages:
            return
        await self._room.acquire()
        publishing = self._publisher.start(messages)
        task = asyncio.create_task(self._await_confirms(publishing, outbox_id, after), name="publish")
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)

    async def send_or_delete(
        self, messages: Sequence[OutMessage], outbox_id: int, after: CrashPoint | None = None
    ) -> None:
        """Publishes what a swept row still asks for; a row that asks for nothing any more is deleted."""
        if messages:
            await self.send(messages, outbox_id, after)
        else:
            self._confirmed.append(outbox_id)
            self._flush_soon()

    @asynccontextmanager
    async def transaction(self, session: Session) -> AsyncIterator[Ride]:
        """A transaction of ``session`` in which the deletion of confirmed outbox rows rides: the caller takes
        their ids into a statement of its own, or they are deleted before the commit.
        """
        ids, self._confirmed = self._confirmed, []
        try:
            async with session.transaction() as connection:
                ride = Ride(connection, ids)
                if ids:
                    crash_point("outbox.before_delete")
                yield ride
                if left := ride.take():
                    await statement("delete_from_outbox").rows(connection, ids=left)
        except BaseException:
            self._give_back(ids)
            raise

    @asynccontextmanager
    async def statement(self, session: Session) -> AsyncIterator[Ride]:
        """The connection of ``session`` for a statement that is a transaction of its own. Confirmed rows that the
        caller does not take into it wait for the next one.
        """
        ids, self._confirmed = self._confirmed, []
        try:
            async with session.connection() as connection:
                ride = Ride(connection, ids)
                if ids:
                    crash_point("outbox.before_delete")
                yield ride
        except BaseException:
            self._give_back(ids)
            raise
        self._give_back(ride.take())

    def _give_back(self, ids: Sequence[int]) -> None:
        """The commit they rode in did not land, or may not have: delete them with the next one."""
        self._confirmed.extend(ids)
        self._flush_soon()

    async def drain(self) -> None:
        """Waits for every confirm and deletes what is left; what cannot be deleted now is swept."""
        while self._in_flight or self._flushes:
            await asyncio.wait([*self._in_flight, *self._flushes])
        self._flush_not()
        await self._flush()
        self._flush_not()

    async def _await_confirms(
        self, publishing: Publishing, outbox_id: int | None, after: CrashPoint | None
    ) -> None:
        try:
            outcomes = await self._publisher.finish(publishing)
        finally:
            self._room.release()
        if after is not None:
            crash_point(after)
        if outbox_id is not None and all(map(is_done, publishing.messages, outcomes)):
            self._confirmed.append(outbox_id)
            self._flush_soon()
        self.settled()

    def _flush_soon(self, seconds: float = IDLE_SECONDS) -> None:
        if self._flushing is None and self._confirmed:
            self._flushing = asyncio.get_running_loop().call_later(seconds, self._start_flush)

    def _flush_not(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None

    def _start_flush(self) -> None:
        self._flushing = None
        if self._confirmed:
            task = asyncio.create_task(self._flush(), name="outbox flush")
            self._flushes.add(task)
            task.add_done_callback(self._flushes.discard)

    async def _flush(self) -> None:
        ids, self._confirmed = self._confirmed, []
        if not ids:
            return
        crash_point("outbox.before_delete")
        try:
            async with self._session.connection() as connection:
                await statement("delete_from_outbox").rows(connection, ids=ids)
        except Exception as error:  # noqa: BLE001 - nothing is lost: the rows are deleted later, or sent again
            self._confirmed.extend(ids)
            self._flush_soon(AGAIN_SECONDS)
            log.warning(events.OUTBOX_KEPT, rows=len(ids), error=str(error) or type(error).__name__)


def is_done(message: OutMessage, outcome: Outcome) -> bool:
    """Whether nothing more is to be done about a message. A status queue that is gone is not waited for:
    its client asks for a replay.
    """
    if outcome is Outcome.CONFIRMED:
        return True
    log.warning(
        events.MESSAGE_RETURNED if outcome is Outcome.RETURNED else events.PUBLISH_UNCONFIRMED,
        message_id=message.message_id,
        queue=message.routing_key,
        outcome=outcome.value,
    )
    return message.type == Status.TYPE and outcome is Outcome.RETURNED
