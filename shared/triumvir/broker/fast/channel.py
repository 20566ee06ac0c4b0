"""One open channel as the byte stream shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from aiormq.exceptions import ChannelInvalidStateError

from triumvir.broker.fast import frames
from triumvir.broker.fast.frames import BadFrame


class Publishing(Protocol):
    """What a channel that publishes tells of."""

    def on_confirm(self, tag: int, *, multiple: bool, accepted: bool) -> None:
        """The broker has a message, or has not."""

    def on_return(self, header: bytes) -> None:
        """A message came back, for want of a queue."""

    def on_end(self, end: End) -> None:
        """Nothing comes any more."""


class Consuming(Protocol):
    """What a channel that consumes tells of."""

    def on_delivery(self, tag: int, redelivered: bool, header: bytes, body: bytes) -> None:
        """A whole message."""

    def on_end(self, end: End) -> None:
        """Nothing comes any more, and no tag is valid any more."""


class End(NamedTuple):
    """Why a channel ended. ``refused``: the broker closed this channel, and no other, over something sent on it."""

    reason: str
    refused: bool = False


class HotChannel:
    """Puts contents together, and hands what is hot to who publishes or consumes on this channel.

    It ends with the first sign that the channel does: the broker's close as it comes in, our own as it is written,
    the end of the connection. After that it writes nothing more, so no settlement can reach a later channel of the
    same number.
    """

    def __init__(self, number: int, write: Callable[[bytes], None]) -> None:
        self.number = number
        self.is_open = True
        self._write = write
        self._methods: dict[bytes, Callable[[bytes, int, int], bool]] = {}
        self._on_end: Callable[[End], None] | None = None
        self._awaited = 0
        """The kind of frame that must come next; 0: any method."""
        self._complete: Callable[[bytes, bytes], None]
        self._header = b""
        self._parts: list[bytes] = []
        self._missing = 0

    def publish_for(self, publishing: Publishing) -> None:
        """Confirms and returns go to ``publishing``: nothing else may publish here, as it counts the tags."""
        self._claim(publishing.on_end)

        def settled(data: bytes, start: int, stop: int, *, accepted: bool) -> bool:
            if stop - start != 13:
                raise BadFrame("a confirm of another length")
            tag = int.from_bytes(data[start + 4 : start + 12], "big")
            publishing.on_confirm(tag, multiple=bool(data[start + 12] & 1), accepted=accepted)
            return True

        def returned(_data: bytes, _start: int, _stop: int) -> bool:
            self._await_content(lambda header, _: publishing.on_return(header))
            return True

        self._methods = {
            frames.ACK: lambda data, start, stop: settled(data, start, stop, accepted=True),
            frames.NACK: lambda data, start, stop: settled(data, start, stop, accepted=False),
            frames.RETURN: returned,
        }

    def consume_for(self, consuming: Consuming, consumer_tag: str) -> None:
        """Deliveries to ``consumer_tag`` go to ``consuming``."""
        self._claim(consuming.on_end)
        expected = frames.short(consumer_tag)
        length = len(expected)

        def delivered(data: bytes, start: int, stop: int) -> bool:
            at = start + 4 + length
            if data[start + 4 : at] != expected:
                return False
            if stop < at + 9:
                raise BadFrame("a delivery is cut off")
            tag, redelivered = int.from_bytes(data[at : at + 8], "big"), bool(data[at + 8])
            self._await_content(lambda header, body: consuming.on_delivery(tag, redelivered, header, body))
            return True

        self._methods = {frames.DELIVER: delivered}

    def write(self, data: bytes) -> None:
        """Write whole frames of this channel. Raises ChannelInvalidStateError once it has ended."""
        if not self.is_open:
            raise ChannelInvalidStateError("the channel is closed")
        self._write(data)

    def end(self, end: End) -> None:
        """Nothing is written any more; repeating it changes nothing. What still comes is read and dropped."""
        if self.is_open:
            self.is_open = False
            if self._on_end is not None:
                self._on_end(end)

    def take(self, kind: int, data: bytes, start: int, stop: int) -> bool:
        """Whether the frame with this payload is hot, and so was dealt with. Raises BadFrame if it may not come now."""
        if kind != self._awaited:
            if self._awaited:
                raise BadFrame(f"frame of kind {kind} inside a content")
            if kind != frames.METHOD:
                return False
            hot = self._methods.get(data[start : start + 4])
            return hot is not None and hot(data, start, stop)
        if kind == frames.HEADER:
            self._begin(data[start:stop])
        else:
            self._go_on(data[start:stop])
        return True

    def _claim(self, on_end: Callable[[End], None]) -> None:
        if self._on_end is not None:
            raise ValueError(f"channel {self.number} is in use")
        self._on_end = on_end

    def _await_content(self, complete: Callable[[bytes, bytes], None]) -> None:
        self._awaited = frames.HEADER
        self._complete = complete

    def _begin(self, header: bytes) -> None:
        if len(header) < 14:
            raise BadFrame("a content header is cut off")
        self._header = header
        self._missing = int.from_bytes(header[4:12], "big")
        self._awaited = frames.BODY
        if not self._missing:
            self._end_content(b"")

    def _go_on(self, part: bytes) -> None:
        self._missing -= len(part)
        if self._missing < 0:
            raise BadFrame("a content longer than its header says")
        if self._missing:
            self._parts.append(part)
        elif self._parts:
            parts, self._parts = [*self._parts, part], []
            self._end_content(b"".join(parts))
        else:
            self._end_content(part)

    def _end_content(self, body: bytes) -> None:
        self._awaited = 0
        if self.is_open:
            self._complete(self._header, body)
