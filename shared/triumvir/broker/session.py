"""One channel with one subscription: its deliveries and their tags live and die with it."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any, Literal

from aiormq import spec
from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel

from triumvir.broker.address import plain
from triumvir.broker.connection import CHANNEL_ERRORS, close_channel, raise_if_cancelled
from triumvir.broker.messages import Delivery
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

AckMode = Literal["front", "single"]

_log = get_logger("triumvir.broker")


class Session:
    """What one channel has delivered. Its deliveries carry it as their ``channel``. This one leaves frames to aiormq.

    ``ended`` is set when the channel or the subscription is gone; ``changed`` whenever there is something new.
    """

    def __init__(self, queue: str, channel: Channel, changed: asyncio.Event) -> None:
        self.queue = queue
        self.channel = channel
        self.consumer_tag = f"{queue}.{secrets.token_hex(8)}"
        self.buffer: deque[Delivery] = deque()
        self.delivered = 0
        self.ended = asyncio.Event()
        self._changed = changed
        self._unsettled: dict[int, bool] = {}
        """By tag, in order of arrival: whether it is settled, but not yet acknowledged."""
        self._acknowledging = asyncio.Lock()
        channel.closing.add_done_callback(self._on_closed)
        channel.on_consumer_cancel_callbacks.add(self._on_cancelled)

    @property
    def is_alive(self) -> bool:
        return not self.ended.is_set() and not self.channel.is_closed

    @property
    def is_consuming(self) -> bool:
        return self.is_alive and self.consumer_tag in self.channel.consumers

    @property
    def unsettled(self) -> int:
        """How many deliveries the broker still waits for."""
        return len(self._unsettled)

    async def deliver(self, message: DeliveredMessage) -> None:
        """Called by aiormq for each delivery, in order. Awaits nothing, so the order stays."""
        method, properties = message.delivery, message.header.properties
        if not isinstance(method, spec.Basic.Deliver) or method.delivery_tag is None or not self.is_alive:
            return
        self.keep(
            Delivery(
                queue=self.queue,
                body=message.body,
                message_id=properties.message_id,
                type=properties.message_type,
                correlation_id=properties.correlation_id,
                user_id=properties.user_id,
                reply_to=properties.reply_to,
                content_type=properties.content_type,
                headers=properties.headers or {},
                redelivered=bool(method.redelivered),
                timestamp=properties.timestamp,
                tag=method.delivery_tag,
                channel=self,
            )
        )

    def keep(self, delivery: Delivery) -> None:
        """Buffer what has come until somebody takes it."""
        self._unsettled[delivery.tag] = False
        self.delivered += 1
        self.buffer.append(delivery)
        self._changed.set()

    def take(self, limit: int) -> list[Delivery]:
        """Up to ``limit`` deliveries out of the buffer, oldest first."""
        if limit >= len(self.buffer):
            taken = list(self.buffer)
            self.buffer.clear()
            return taken
        return [self.buffer.popleft() for _ in range(limit)]

    def mark(self, tag: int) -> bool:
        """Mark as settled. False: it was already acknowledged, or the broker has taken it back."""
        if not self.is_alive or tag not in self._unsettled:
            return False
        self._unsettled[tag] = True
        return True

    async def acknowledge(self, mode: AckMode) -> None:
        """Acknowledge the settled front with one frame and, in single mode, each settled one behind it.

        Under a lock, because a front that overtakes a later one names tags the broker no longer has. Nothing is
        forgotten before it was handed over, so a cancelled call leaves its work to the next one.
        """
        async with self._acknowledging:
            front = self._front()
            behind = self._behind(len(front)) if mode == "single" else []
            if front or behind:
                await self.write_acks(front, behind)
            for tag in (*front, *behind):
                del self._unsettled[tag]

    async def give_back(self) -> None:
        """Return what nobody has taken to the queue, for other consumers."""
        tags = [delivery.tag for delivery in self.buffer]
        self.buffer.clear()
        if not tags or not self.is_alive:
            return
        try:
            await self.write_returns(tags)
        except CHANNEL_ERRORS as error:
            self._lose(error)
            return
        for tag in tags:
            del self._unsettled[tag]

    async def cancel(self, timeout: float) -> None:
        """End the subscription. What it delivered can still be settled; if that fails, the session ends."""
        if not self.is_alive:
            return
        try:
            await self.channel.basic_cancel(self.consumer_tag, timeout=timeout)
        except CHANNEL_ERRORS as error:
            self._lose(error)

    def _lose(self, error: BaseException) -> None:
        raise_if_cancelled(error)
        _log.warning(events.CONSUMER_LOST, queue=self.queue, problem=plain(error))
        self.end()

    async def write_acks(self, front: Sequence[int], behind: Sequence[int]) -> None:
        """Hand acknowledgements over: one for the whole ``front``, one for each tag of ``behind``."""
        if front:
            await self.channel.basic_ack(front[-1], multiple=len(front) > 1, wait=False)
        for tag in behind:
            await self.channel.basic_ack(tag, wait=False)

    async def write_returns(self, tags: Sequence[int]) -> None:
        """Hand over that each of ``tags`` goes back to its queue."""
        for tag in tags:
            await self.channel.basic_nack(tag, requeue=True, wait=False)

    async def close(self) -> None:
        """Close the channel, unless it is closed or about to be."""
        await close_channel(self.channel)

    def end(self) -> None:
        """Deliveries of this channel are void from now on."""
        self.buffer.clear()
        self.ended.set()

    def _front(self) -> list[int]:
        front: list[int] = []
        for tag, settled in self._unsettled.items():
            if not settled:
                break
            front.append(tag)
        return front

    def _behind(self, front: int) -> list[int]:
        """The settled ones behind so many of a front."""
        return [tag for tag, settled in islice(self._unsettled.items(), front, None) if settled]

    def _on_closed(self, closing: asyncio.Future[Any]) -> None:
        if not closing.cancelled():
            closing.exception()
        self.end()

    def _on_cancelled(self, frame: spec.Basic.Cancel) -> None:
        if frame.consumer_tag == self.consumer_tag:
            _log.error(events.CONSUMER_LOST, queue=self.queue, problem="cancelled by the broker")
            self.end()
