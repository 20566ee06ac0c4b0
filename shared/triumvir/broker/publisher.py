"""Publish many messages at once and say what became of each.

Everything of a call is in flight together, and calls overlap. One bad message never decides over another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import structlog
from aiormq import spec
from aiormq.channel import Channel
from aiormq.exceptions import AMQPChannelError, ChannelInvalidStateError, DeliveryError, PublishError

from triumvir.broker.connection import Connection, plain
from triumvir.broker.declare import close_channel
from triumvir.broker.messages import Outcome, OutMessage
from triumvir.broker.sendable import MAX_BODY, fault_of
from triumvir.errors import BrokerError

_PERSISTENT: Final = 2
_LEFTOVER_GRACE: Final = 0.1
"""Seconds after a channel closed in which its publishes take their own outcome before they are cut off."""
_STALE_TIMEOUTS: Final = 6
"""A channel with a publish unconfirmed for so many timeouts, on a connection that is not blocked, is replaced."""

_log = structlog.get_logger("triumvir.broker")


class Publisher:
    """Publishes on a connection of its own: an alarm of the broker stops everything on a connection that publishes.

    ``timeout`` (seconds) bounds one call, waiting for a lost connection included. ``max_body`` is in bytes.
    """

    def __init__(self, connection: Connection, *, timeout: float = 10.0, max_body: int = MAX_BODY) -> None:
        self._connection = connection
        self._timeout = timeout
        self._max_body = max_body
        self._lane: _Lane | None = None
        self._opening = asyncio.Lock()
        self._calls: dict[object, float] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def publish(self, messages: Sequence[OutMessage]) -> list[Outcome]:
        """Publish all, and return an outcome for each, in the same order. Never raises for a message.

        Order is kept among messages of one call, and from one call to the next, except around a message whose id
        is still in flight: it waits for the first. Cancelling the call leaves what was sent in flight: unknown.
        """
        outcomes = [Outcome.UNKNOWN] * len(messages)
        sendable: list[int] = []
        for index, message in enumerate(messages):
            fault = fault_of(message, self._connection.user, self._max_body)
            if fault is None:
                sendable.append(index)
            else:
                outcomes[index] = _refuse(message, fault)
        if sendable:
            await self._publish(_Call(messages, outcomes, _now() + self._timeout), sendable)
        return outcomes

    def oldest_unconfirmed_age(self) -> float:
        """Seconds since the oldest publish that has no outcome yet was asked for; 0.0 if there is none."""
        starts = [next(iter(self._calls.values()))] if self._calls else []
        if self._lane is not None and self._lane.flights:
            starts.append(next(iter(self._lane.flights.values())).since)
        return _now() - min(starts) if starts else 0.0

    async def close(self) -> None:
        """Close the channel; what is in flight becomes unknown. The connection stays its owner's."""
        lane, self._lane = self._lane, None
        if lane is not None:
            await close_channel(lane.channel)
            lane.cut_off()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _publish(self, call: _Call, indexes: list[int]) -> None:
        self._calls[call] = _now()
        try:
            suspects = await self._together(call, indexes)
            if suspects and self._connection.is_open:
                await self._apart(call, suspects)
        except BrokerError as error:
            _log.warning("publishing had to be given up", messages=len(indexes), problem=str(error))
        finally:
            del self._calls[call]

    async def _together(self, call: _Call, indexes: list[int]) -> list[int]:
        """All at once. Returns those whose channel was closed under them: one of them may be the cause."""
        suspects: list[int] = []
        while indexes and call.time_left() > 0:
            lane = await self._open_lane(call)
            started, waiting = lane.start(call.messages, indexes)
            if started:
                await asyncio.wait(started.values(), timeout=max(0.0, call.time_left()))
                suspects += [index for index, task in started.items() if call.conclude(index, task)]
            else:
                first = [lane.flights[call.messages[index].message_id] for index in waiting]
                await asyncio.wait(first, timeout=max(0.0, call.time_left()), return_when=asyncio.FIRST_COMPLETED)
            indexes = waiting
        return suspects

    async def _apart(self, call: _Call, suspects: list[int]) -> None:
        """Halve until the message that closes its channel stands alone, and is refused; all others get through."""
        groups = [suspects] if len(suspects) == 1 else _halves(suspects)
        while groups and call.time_left() > 0:
            group = groups.pop(0)
            lane = _Lane(await self._connection.channel(confirms=True, timeout=call.time_left()))
            try:
                started, again = lane.start(call.messages, group)
                await asyncio.wait(started.values(), timeout=max(0.0, call.time_left()))
                failed = [index for index, task in started.items() if call.conclude(index, task)]
            finally:
                self._retire(lane)
            if len(failed) == 1 and len(group) == 1:
                call.outcomes[failed[0]] = _refuse(call.messages[failed[0]], lane.closed_because())
            elif failed:
                groups[:0] = _halves(failed)
            if again:
                groups.append(again)

    async def _open_lane(self, call: _Call) -> _Lane:
        await self._connection.ready(max(0.001, call.time_left()))
        try:
            async with asyncio.timeout(call.time_left()), self._opening:
                if self._lane is not None and self._lane.is_stale(self._timeout * _STALE_TIMEOUTS):
                    _log.warning("publishes stay unconfirmed; opening another channel")
                    self._retire(self._lane)
                    self._lane = None
                if self._lane is None or self._lane.channel.is_closed:
                    self._lane = _Lane(await self._connection.channel(confirms=True, timeout=call.time_left()))
                return self._lane
        except TimeoutError:
            raise BrokerError("no channel could be opened in time") from None

    def _retire(self, lane: _Lane) -> None:
        task = asyncio.get_running_loop().create_task(close_channel(lane.channel))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class _Call:
    """One call of publish(): its messages, what became of them, and until when it waits."""

    __slots__ = ("deadline", "messages", "outcomes")

    def __init__(self, messages: Sequence[OutMessage], outcomes: list[Outcome], deadline: float) -> None:
        self.messages = messages
        self.outcomes = outcomes
        self.deadline = deadline

    def time_left(self) -> float:
        return self.deadline - _now()

    def conclude(self, index: int, task: asyncio.Task[Any]) -> bool:
        """Write the outcome down; whether the channel was closed under this message."""
        if not task.done() or task.cancelled():
            return False
        error = task.exception()
        if error is None:
            if isinstance(task.result(), spec.Basic.Ack):
                self.outcomes[index] = Outcome.CONFIRMED
        elif isinstance(error, PublishError):
            self.outcomes[index] = Outcome.RETURNED
        elif isinstance(error, DeliveryError):
            self.outcomes[index] = Outcome.REFUSED
        elif isinstance(error, ValueError | TypeError | ArithmeticError):
            self.outcomes[index] = _refuse(self.messages[index], plain(error))
        return isinstance(error, AMQPChannelError | ChannelInvalidStateError)


class _Flight(asyncio.Task[Any]):
    """One publish until its confirm. ``since`` is loop time."""

    since: float = 0.0


class _Lane:
    """A channel and what is in flight on it, by message id.

    aiormq finds the publish of a returned message by its id, so an id is in flight once: until the broker's answer
    or the end of the channel, even if the call that sent it has stopped waiting.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.flights: dict[str, _Flight] = {}
        self._loop = asyncio.get_running_loop()
        channel.closing.add_done_callback(self._on_closed)

    def start(self, messages: Sequence[OutMessage], indexes: Iterable[int]) -> tuple[dict[int, _Flight], list[int]]:
        """Send those whose id is not in flight; returns them, and the others."""
        started: dict[int, _Flight] = {}
        waiting: list[int] = []
        since, at = _now(), datetime.now(UTC)
        for index in indexes:
            message = messages[index]
            if message.message_id in self.flights:
                waiting.append(index)
                continue
            flight = _Flight(self._send(message, at), loop=self._loop)
            flight.since = since
            self.flights[message.message_id] = started[index] = flight
        return started, waiting

    def is_stale(self, limit: float) -> bool:
        """Whether something has been in flight here for ``limit`` seconds."""
        return bool(self.flights) and _now() - next(iter(self.flights.values())).since > limit

    def closed_because(self) -> str:
        """Why the channel closed, as the broker put it."""
        closing = self.channel.closing
        if not closing.done() or closing.cancelled():
            return "its channel closed"
        return plain(error) if (error := closing.exception()) is not None else "its channel closed"

    def cut_off(self) -> None:
        """End what still waits: a write queue whose connection is gone never takes it."""
        for flight in tuple(self.flights.values()):
            flight.cancel()

    async def _send(self, message: OutMessage, at: datetime) -> object:
        try:
            return await self.channel.basic_publish(
                message.body,
                exchange=message.exchange,
                routing_key=message.routing_key,
                properties=_properties(message, at),
                mandatory=True,
                wait=False,
            )
        finally:
            del self.flights[message.message_id]

    def _on_closed(self, closing: asyncio.Future[Any]) -> None:
        if not closing.cancelled():
            closing.exception()
        self._loop.call_later(_LEFTOVER_GRACE, self.cut_off)


def _properties(message: OutMessage, at: datetime) -> spec.Basic.Properties:
    return spec.Basic.Properties(
        content_type="application/json",
        delivery_mode=_PERSISTENT,
        headers=dict(message.headers) or None,
        correlation_id=message.correlation_id,
        reply_to=message.reply_to,
        message_id=message.message_id,
        timestamp=at,
        message_type=message.type,
        user_id=message.user_id,
    )


def _refuse(message: OutMessage, fault: str) -> Outcome:
    _log.error("message refused", message_id=message.message_id[:255], type=message.type, fault=fault)
    return Outcome.REFUSED


def _halves(indexes: list[int]) -> list[list[int]]:
    middle = (len(indexes) + 1) // 2
    return [indexes[:middle], indexes[middle:]]


def _now() -> float:
    return asyncio.get_running_loop().time()
