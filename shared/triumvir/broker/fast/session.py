"""Receives: deliveries as they are read, without a task each; settlements in one write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiormq.channel import Channel

from triumvir.broker.fast import frames, properties
from triumvir.broker.fast.channel import End, HotChannel
from triumvir.broker.messages import Delivery
from triumvir.broker.session import Session


class FastSession(Session):
    """A session that reads its own deliveries."""

    def __init__(self, queue: str, channel: Channel, changed: asyncio.Event, hot: HotChannel) -> None:
        super().__init__(queue, channel, changed)
        self._hot = hot
        hot.consume_for(self, self.consumer_tag)

    @property
    def is_alive(self) -> bool:
        return self._hot.is_open and super().is_alive

    def on_delivery(self, tag: int, redelivered: bool, header: bytes, body: bytes) -> None:
        if not self.is_alive:
            return
        found = properties.read(header)
        self.keep(
            Delivery(
                queue=self.queue,
                body=body,
                message_id=found.message_id,
                type=found.type,
                correlation_id=found.correlation_id,
                user_id=found.user_id,
                reply_to=found.reply_to,
                content_type=found.content_type,
                headers=found.headers,
                redelivered=redelivered,
                timestamp=found.timestamp,
                tag=tag,
                channel=self,
            )
        )

    def on_end(self, end: End) -> None:
        """What is buffered is void. The session ends once the client library has closed its channel, too: until then
        that is not to be closed a second time.
        """
        self.buffer.clear()

    async def close(self) -> None:
        if self._hot.is_open:
            await super().close()

    async def write_acks(self, front: Sequence[int], behind: Sequence[int]) -> None:
        number = self._hot.number
        burst = [frames.ack(number, front[-1], multiple=True)] if front else []
        burst += [frames.ack(number, tag) for tag in behind]
        self._hot.write(b"".join(burst))

    async def write_returns(self, tags: Sequence[int]) -> None:
        self._hot.write(frames.give_back(self._hot.number, tags))
