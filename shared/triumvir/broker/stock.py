"""A publishing channel of aiormq and what is in flight on it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from aiormq import spec
from aiormq.abc import ChannelFrame
from aiormq.channel import Channel
from aiormq.exceptions import AMQPChannelError, ChannelInvalidStateError, DeliveryError, PublishError
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from triumvir.broker.address import plain
from triumvir.broker.connection import close_channel
from triumvir.broker.messages import Outcome, OutMessage
from triumvir.broker.sendable import refuse
from triumvir.broker.volley import Landing, Volley

_PERSISTENT: Final = 2


class Flight(asyncio.Future["spec.Basic.Ack | spec.Basic.Nack"]):
    """One publish until the broker's answer, which aiormq sets. ``since`` is loop time."""

    since = 0.0

    def outcome(self) -> Landing:
        """What became of it, once done."""
        if self.cancelled():
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


class StockLane:
    """A lane of which aiormq reads the answers.

    Frames are written here and the answers are left to aiormq, by the tables that its own ``basic_publish`` keeps:
    that one takes a task, a lock and four context managers for each message, to wait for what an outlet never waits
    for.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._flights: dict[str, Flight] = {}
        self._loop = asyncio.get_running_loop()
        self._sent = False
        self._was_refused = False
        self._closed_because = "the channel was closed"
        channel.closing.add_done_callback(self._on_closed)

    @property
    def is_closed(self) -> bool:
        return self.channel.is_closed

    @property
    def was_refused(self) -> bool:
        return self._was_refused

    @property
    def closed_because(self) -> str:
        return self._closed_because

    @property
    def takes_more(self) -> bool:
        return True

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    def start(self, messages: Sequence[OutMessage], indexes: Sequence[int]) -> tuple[Volley, list[int]]:
        volley, waiting = Volley(self._loop.time()), []
        at = datetime.now(UTC)
        for index in indexes:
            message = messages[index]
            if message.message_id in self._flights:
                waiting.append(index)
                continue
            flight = Flight(loop=self._loop)
            flight.since = volley.since
            volley.expect()
            self._flights[message.message_id] = flight
            flight.add_done_callback(partial(self._landed, message.message_id, volley, index))
            self._send(message, at, flight)
        return volley, waiting

    def oldest(self) -> float | None:
        return next(iter(self._flights.values())).since if self._flights else None

    async def room(self) -> None:
        """aiormq writes without asking, so there always is some."""

    async def one_lands(self, message_ids: Collection[str], timeout: float) -> None:
        flights = {self._flights[message_id] for message_id in message_ids}
        await asyncio.wait(flights, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        await close_channel(self.channel)

    def cut_off(self, error: BaseException | None = None) -> None:
        for flight in tuple(self._flights.values()):
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
            self._sent = True
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

    def _landed(self, message_id: str, volley: Volley, index: int, flight: Flight) -> None:
        del self._flights[message_id]
        self.channel.message_id_delivery_tag.pop(message_id, None)
        volley.land(index, flight.outcome())

    def _on_closed(self, closing: asyncio.Future[Any]) -> None:
        error = None if closing.cancelled() else closing.exception()
        if error is not None:
            self._closed_because = plain(error)
            self._was_refused = self._sent and isinstance(error, AMQPChannelError)
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
