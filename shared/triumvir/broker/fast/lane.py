"""Publishes: each call in one write, its confirms in a book."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Collection, Sequence
from typing import Final

from aiormq.channel import Channel

from triumvir.broker.address import plain
from triumvir.broker.connection import close_channel
from triumvir.broker.fast import frames, properties
from triumvir.broker.fast.book import Book
from triumvir.broker.fast.channel import End, HotChannel
from triumvir.broker.messages import Outcome, OutMessage
from triumvir.broker.sendable import refuse
from triumvir.broker.volley import Volley

_DESTINATIONS: Final = 1000
"""Publish methods kept ready; agents and clients are fewer, as a rule."""


class FastLane:
    """A lane that reads its own answers, of a channel opened with confirms."""

    def __init__(self, channel: Channel, hot: HotChannel, takes_more: asyncio.Event) -> None:
        self.channel = channel
        self._hot = hot
        self._takes_more = takes_more
        self._book = Book()
        self._methods: dict[tuple[str, str], bytes] = {}
        self._loop = asyncio.get_running_loop()
        self._sent = False
        self._was_refused = False
        self._closed_because = "the channel was closed"
        hot.publish_for(self)

    @property
    def is_closed(self) -> bool:
        return not self._hot.is_open or self.channel.is_closed

    @property
    def was_refused(self) -> bool:
        return self._was_refused

    @property
    def closed_because(self) -> str:
        return self._closed_because

    @property
    def takes_more(self) -> bool:
        return self._takes_more.is_set()

    @property
    def in_flight(self) -> int:
        return len(self._book)

    def start(self, messages: Sequence[OutMessage], indexes: Sequence[int]) -> tuple[Volley, list[int]]:
        """Nothing is awaited between the book and the wire: they cannot get out of step."""
        volley, waiting, burst = Volley(self._loop.time()), [], []
        at = int(time.time())
        for index in indexes:
            message = messages[index]
            if message.message_id in self._book:
                waiting.append(index)
                continue
            volley.expect()
            if self.is_closed:
                volley.land(index, None)
                continue
            try:
                burst.append(self._frames(message, at))
            except (ValueError, TypeError, ArithmeticError, struct.error) as error:
                volley.land(index, refuse(message, plain(error)))
            else:
                self._book.enter(message.message_id, volley, index)
        if burst:
            self._sent = True
            self._hot.write(b"".join(burst))
        return volley, waiting

    def oldest(self) -> float | None:
        return self._book.oldest()

    async def room(self) -> None:
        await self._takes_more.wait()

    async def one_lands(self, message_ids: Collection[str], timeout: float) -> None:
        await self._book.one_lands(message_ids, timeout)

    async def close(self) -> None:
        if self._hot.is_open:
            await close_channel(self.channel)

    def cut_off(self) -> None:
        self._book.close(Outcome.UNKNOWN)

    def on_confirm(self, tag: int, *, multiple: bool, accepted: bool) -> None:
        outcome = Outcome.CONFIRMED if accepted else Outcome.REFUSED
        self._book.confirmed(tag, multiple=multiple, outcome=outcome)

    def on_return(self, header: bytes) -> None:
        self._book.returned(properties.read(header).message_id)

    def on_end(self, end: End) -> None:
        self._closed_because = end.reason
        self._was_refused = self._sent and end.refused
        self._book.close(None if end.refused else Outcome.UNKNOWN)

    def _frames(self, message: OutMessage, at: int) -> bytes:
        channel = self.channel
        content = frames.content(
            channel.number, properties.write(message, at), message.body, channel.max_content_size
        )
        return self._method(message.exchange, message.routing_key) + content

    def _method(self, exchange: str, routing_key: str) -> bytes:
        method = self._methods.get((exchange, routing_key))
        if method is None:
            if len(self._methods) >= _DESTINATIONS:
                self._methods.clear()
            method = frames.publish(self.channel.number, exchange, routing_key)
            self._methods[exchange, routing_key] = method
        return method
