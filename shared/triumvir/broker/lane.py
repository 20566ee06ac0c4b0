"""A publishing channel and what is in flight on it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from aiormq import spec
from aiormq.channel import Channel
from aiormq.exceptions import AMQPChannelError, ChannelInvalidStateError, DeliveryError, PublishError

from triumvir.broker.connection import CHANNEL_ERRORS, plain, raise_if_cancelled
from triumvir.broker.messages import Outcome, OutMessage
from triumvir.broker.sendable import refuse

_PERSISTENT: Final = 2
_LEFTOVER_GRACE: Final = 0.1
"""Seconds after the channel closed in which its publishes find their own outcome before they are cut off."""


class Flight(asyncio.Task["Outcome | None"]):
    """One publish until the broker's answer; None: its channel was closed under it. ``since`` is loop time."""

    since = 0.0


class Lane:
    """A channel and its publishes in flight, by message id.

    aiormq finds the publish of a returned message by its id, so an id is in flight once: until the broker's answer
    or the end of the channel, even if the call that sent it has stopped waiting.
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
            flight = Flight(self._send(message, at), loop=self._loop)
            flight.since = since
            self.flights[message.message_id] = started[index] = flight
        return started, waiting

    @property
    def closed_because(self) -> str:
        """Why the channel closed, as the broker put it."""
        return self._closed_because

    def oldest(self) -> float | None:
        """Loop time at which the oldest publish in flight was started; None if there is none."""
        return next(iter(self.flights.values())).since if self.flights else None

    def cut_off(self) -> None:
        """End what still waits: the write queue of a connection that is gone never takes it."""
        for flight in tuple(self.flights.values()):
            flight.cancel()

    async def _send(self, message: OutMessage, at: datetime) -> Outcome | None:
        try:
            answer = await self.channel.basic_publish(
                message.body,
                exchange=message.exchange,
                routing_key=message.routing_key,
                properties=_properties(message, at),
                mandatory=True,
                wait=False,
            )
        except PublishError:
            return Outcome.RETURNED
        except DeliveryError:
            return Outcome.REFUSED
        except (AMQPChannelError, ChannelInvalidStateError):
            return None
        except (ValueError, TypeError, ArithmeticError) as error:
            return refuse(message, plain(error))
        except CHANNEL_ERRORS as error:
            raise_if_cancelled(error)
            return Outcome.UNKNOWN
        finally:
            del self.flights[message.message_id]
        return Outcome.CONFIRMED if isinstance(answer, spec.Basic.Ack) else Outcome.UNKNOWN

    def _on_closed(self, closing: asyncio.Future[Any]) -> None:
        if not closing.cancelled() and (error := closing.exception()) is not None:
            self._closed_because = plain(error)
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
