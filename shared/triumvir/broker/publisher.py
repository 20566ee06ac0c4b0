"""Publish many messages at once and say what became of each.

Everything of a call is in flight together, and calls overlap. One bad message never decides over another one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

from triumvir.broker.connection import Connection
from triumvir.broker.messages import Outcome, OutMessage
from triumvir.broker.openings import open_lane
from triumvir.broker.sendable import MAX_BODY, fault_of, refuse
from triumvir.broker.volley import Lane, Volley
from triumvir.errors import BrokerError
from triumvir.telemetry import events, metrics
from triumvir.telemetry.logs import get_logger

_STALE_TIMEOUTS: Final = 6
"""A channel with a publish unconfirmed for so many timeouts, on a connection that is not blocked, is replaced."""

_log = get_logger("triumvir.broker")


class Publisher:
    """Publishes on a connection of its own: an alarm of the broker stops everything on a connection that publishes.

    ``timeout`` (seconds) bounds one call, waiting for a lost connection included. ``max_body`` is in bytes.
    """

    def __init__(self, connection: Connection, *, timeout: float = 10.0, max_body: int = MAX_BODY) -> None:
        self._connection = connection
        self._timeout = timeout
        self._max_body = max_body
        self._lane: Lane | None = None
        self._turn = asyncio.Lock()
        self._calls: dict[Publishing, float] = {}
        self._unsent: set[Publishing] = set()
        self._retiring: set[asyncio.Task[None]] = set()

    async def publish(self, messages: Sequence[OutMessage]) -> list[Outcome]:
        """Publish all, and return an outcome for each, in the same order. Never raises for a message.

        Order is kept among the messages of one call, and from one call to the next, except around a message whose
        id is still in flight: it waits for the first. Cancelling the call leaves what was sent in flight: unknown.
        """
        return await self.finish(self.start(messages))

    def start(self, messages: Sequence[OutMessage]) -> Publishing:
        """The first half of :meth:`publish`, to be finished by :meth:`finish`: if the channel takes them, the messages
        are on their way when this returns, before anything else of this process runs.
        """
        call = Publishing(messages, _now() + self._timeout)
        for index, message in enumerate(messages):
            fault = fault_of(message, self._connection.user, self._max_body)
            if fault is None:
                call.left.append(index)
            else:
                call.outcomes[index] = refuse(message, fault)
        if call.left:
            self._calls[call] = _now()
            if self._lane is not None and self._takes_now(self._lane):
                call.volley, call.left = self._lane.start(messages, call.left)
            else:
                self._unsent.add(call)
        return call

    async def finish(self, call: Publishing) -> list[Outcome]:
        """Send what :meth:`start` could not, and wait for what became of all: an outcome for each message."""
        if call in self._calls:
            await self._publish(call)
        for outcome, count in Counter(call.outcomes).items():
            metrics.PUBLISHES.add(count, outcome.value)
        return call.outcomes

    def oldest_unconfirmed_age(self) -> float:
        """Seconds since the oldest publish that has no answer yet was asked for; 0.0 if there is none.

        A publish whose call ended as unknown counts until its answer comes or its channel closes.
        """
        starts = [next(iter(self._calls.values()))] if self._calls else []
        if self._lane is not None and (oldest := self._lane.oldest()) is not None:
            starts.append(oldest)
        return _now() - min(starts) if starts else 0.0

    async def close(self) -> None:
        """Close the channel; what is in flight becomes unknown. The connection stays its owner's."""
        lane, self._lane = self._lane, None
        if lane is not None:
            await lane.close()
            lane.cut_off()
        await asyncio.gather(*self._retiring, return_exceptions=True)

    async def _publish(self, call: Publishing) -> None:
        try:
            suspects = await self._together(call)
            if suspects and self._connection.is_open:
                await self._apart(call, suspects)
        except BrokerError as error:
            _log.warning(events.PUBLISH_UNCONFIRMED, messages=len(call.messages), problem=str(error))
        finally:
            self._unsent.discard(call)
            del self._calls[call]

    async def _together(self, call: Publishing) -> list[int]:
        """All at once. Returns those whose channel was closed under them: one of them may be the cause."""
        suspects = [] if call.volley is None else await call.land(call.volley)
        while call.left and call.time_left() > 0:
            lane = await self._open_lane(call)
            volley, waiting = lane.start(call.messages, call.left)
            self._unsent.discard(call)
            if volley.started:
                suspects += await call.land(volley)
            else:
                ids = {call.messages[index].message_id for index in waiting}
                await lane.one_lands(ids, call.time_left())
            call.left = waiting
        return suspects

    async def _apart(self, call: Publishing, suspects: list[int]) -> None:
        """Halve until the message that closes its channel stands alone and is refused; all others get through."""
        groups = _halves(suspects)
        while groups and call.time_left() > 0:
            group = groups.pop(0)
            lane = await open_lane(self._connection, call.time_left())
            try:
                volley, again = lane.start(call.messages, group)
                failed = await call.land(volley)
            finally:
                self._retire(lane)
            if failed and volley.started == 1 and lane.was_refused:
                call.outcomes[failed[0]] = refuse(call.messages[failed[0]], lane.closed_because)
            elif failed:
                groups[:0] = _halves(
                    failed
                )  # one that was never sent, for its channel was lost first, goes again
            if again:
                groups.append(again)

    async def _open_lane(self, call: Publishing) -> Lane:
        """The lane, once there is one and its connection takes more. Calls get it in the order in which they ask.

        Raises BrokerError when the call is over first.
        """
        try:
            async with asyncio.timeout(call.time_left()), self._turn:
                while True:
                    await self._connection.ready(call.time_left())
                    lane = await self._fit_lane(call.time_left())
                    await lane.room()
                    if not lane.is_closed:
                        return lane
        except TimeoutError:
            raise BrokerError(
                "RabbitMQ was away or blocked, or took nothing, while the call could wait"
            ) from None

    def _takes_now(self, lane: Lane) -> bool:
        """Whether a call need not wait for anything: neither for the connection nor for calls that came before."""
        return not self._unsent and lane.takes_more and self._is_fit(lane) and self._connection.is_ready

    async def _fit_lane(self, timeout: float) -> Lane:
        """The one there is, or a new one."""
        if self._lane is None or not self._is_fit(self._lane):
            unfit, self._lane = self._lane, None
            if unfit is not None and not unfit.is_closed:
                self._give_up(unfit)
            self._lane = await open_lane(self._connection, timeout)
        return self._lane

    def _is_fit(self, lane: Lane) -> bool:
        """Whether it is open, and the broker answers on it."""
        oldest = lane.oldest()
        return not lane.is_closed and (oldest is None or _now() - oldest <= self._timeout * _STALE_TIMEOUTS)

    def _give_up(self, stale: Lane) -> None:
        seconds = _now() - (stale.oldest() or _now())
        _log.error(events.PUBLISH_UNCONFIRMED, messages=stale.in_flight, seconds=seconds)
        self._retire(stale)

    def _retire(self, lane: Lane) -> None:
        task = asyncio.get_running_loop().create_task(lane.close())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)


class Publishing:
    """One call of publish(): its messages, what became of them, and until when it waits.

    ``volley``: what was sent at once. ``left``: the indexes of what is still to be sent.
    """

    __slots__ = ("deadline", "left", "messages", "outcomes", "volley")

    def __init__(self, messages: Sequence[OutMessage], deadline: float) -> None:
        self.messages = messages
        self.outcomes = [Outcome.UNKNOWN] * len(messages)
        self.deadline = deadline
        self.volley: Volley | None = None
        self.left: list[int] = []

    def time_left(self) -> float:
        """Seconds; a little more than none once it is over, so that no wait becomes endless."""
        return max(0.0, self.deadline - _now())

    async def land(self, volley: Volley) -> list[int]:
        """Wait for the answers, and write them down. Returns those whose channel was closed under them."""
        await volley.wait(self.time_left())
        suspects: list[int] = []
        for index, outcome in volley.landed.items():
            if outcome is None:
                suspects.append(index)
            else:
                self.outcomes[index] = outcome
        return suspects


def _halves(indexes: list[int]) -> list[list[int]]:
    middle = (len(indexes) + 1) // 2
    return [half for half in (indexes[:middle], indexes[middle:]) if half]


def _now() -> float:
    return asyncio.get_running_loop().time()
