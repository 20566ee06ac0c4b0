"""A publishing channel and what is in flight on it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from aiormq import spec
from aiormq.abc import ChannelFrame
from aiormq.channel import Channel
from aiormq.exceptions import AMQPChannelError, ChannelInvalidStateError, DeliveryError, PublishError
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from triumvir.broker.connection import plain
from triumvir.broker.messages import Outcome, OutMessage
from triumvir.broker.sendable import refuse

_PERSISTENT: Final = 2


class Flight(asyncio.Future["spec.Basic.Ack | spec.Basic.Nack"]):
    """One publish until the broker's answer, which aiormq sets. ``since`` is loop time."""

    since = 0.0

    def outcome(self) -> Outcome | None:
        """What became of it. None: its channel was closed under it."""
        if not self.done() or self.cancelled():
            return Outcome.UNKNOWN
        match self.exception():
            case None:
                return Outcome.CONFIRMED if isinstance(self.result(), spec.Basic.Ack) else Outcome.UNKNOWN
            case PublishError():
                return Outcome.RETURNED
            case DeliveryError() | ValueError() | TypeError() | ArithmeticError():
                return Outcome.REFUSED
            case AMQPChannelError() | ChannelInvalidStateError():
                return None
            case _:
                return Outcome.UNKNOWN


class Lane:
    """A channel and its publishes in flight, by message id.

    aiormq finds the publish of a returned message by its id, so an id is in flight once: until the broker's answer
    or the end of the channel, even if the call that sent it has stopped waiting.

    Frames are written here and the answers are left to aiormq, by the tables that its own ``basic_publish`` keeps:
    that one takes a task, a lock and four context managers for each message, to wait for what an outlet never waits
    for. Nothing else may publish on the channel, so the count of delivery tags stays right.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.flights: dict[str, Flight] = {}
        self._loop = asyncio.get_running_loop()
        self._closed_because = "the channel was closed"
        channel.closing.add_done_callback(self._on_closed)

    def start(
        self, messages: Sequence[OutMessage], indexes: Iterable[int]
    ) -> tuple[dict[int, Flight], list[int]]:
        """Send the messages at ``indexes`` whose id is not in flight. Returns their flights, and the other indexes."""
        started: dict[int, Flight] = {}
        waiting: list[int] = []
        since, at = self._loop.time(), datetime.now(UTC)
        for index in indexes:
            message = messages[index]
            if message.message_id in self.flights:
                waiting.append(index)
                continue
            flight = Flight(loop=self._loop)
            flight.since = since
            self.flights[message.message_id] = started[index] = flight
            flight.add_done_callback(partial(self._landed, message.message_id))
            self._send(message, at, flight)
        return started, waiting

    @property
    def closed_because(self) -> str:
        """Why the channel closed, as the broker put it."""
        return self._closed_because

    def oldest(self) -> float | None:
        """Loop time at which the oldest publish in flight was started; None if there is none."""
        return next(iter(self.flights.values())).since if self.flights else None

    def cut_off(self, error: BaseException | None = None) -> None:
        """End what still waits: nobody answers any more."""
        for flight in tuple(self.flights.values()):
            if error is None:
                flight.cancel()
            elif not flight.done():
                flight.set_exception(error)

    def _send(self, message: OutMessage, at: datetime, flight: Flight) -> None:
        try:
            if self.channel.is_closed:
                raise ChannelInvalidStateError("the channel is closed")
            self.channel.write_queue.put_nowait(self._frames(message, at))
        except (ValueError, TypeError, ArithmeticError) as error:
            refuse(message, plain(error))
            flight.set_exception(error)
        except ChannelInvalidStateError as error:
            flight.set_exception(error)
        else:
            self.channel.delivery_tag += 1
            self.channel.confirmations[self.channel.delivery_tag] = flight
            self.channel.message_id_delivery_tag[message.message_id] = self.channel.delivery_tag

    def _frames(self, message: OutMessage, at: datetime) -> ChannelFrame:
        body, most = message.body, self.channel.max_content_size
        return ChannelFrame.marshall(
            self.channel.number,
            [
                spec.Basic.Publish(
                    exchange=message.exchange, routing_key=message.routing_key, mandatory=True
                ),
                ContentHeader(body_size=len(body), properties=_properties(message, at)),
                *(ContentBody(body[start : start + most]) for start in range(0, len(body), most)),
            ],
        )

    def _landed(self, message_id: str, flight: asyncio.Future[Any]) -> None:
        del self.flights[message_id]
        self.channel.message_id_delivery_tag.pop(message_id, None)
        if not flight.cancelled():
            flight.exception()  # is looked at by whoever waits; nobody may

    def _on_closed(self, closing: asyncio.Future[Any]) -> None:
        error = None if closing.cancelled() else closing.exception()
        if error is not None:
            self._closed_because = plain(error)
        self._loop.call_soon(self.cut_off, error)  # after the answers that came before the close


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
