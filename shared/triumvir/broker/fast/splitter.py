"""A byte stream in, whole frames out: the hot ones to their channel, all others on to the client library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from triumvir.broker.fast import frames
from triumvir.broker.fast.channel import End, HotChannel
from triumvir.broker.fast.frames import BadFrame

_UNTUNED: Final = 131_072
"""Bytes that a frame may have until both sides have agreed: what RabbitMQ proposes."""
_NO_LIMIT: Final = 1 << 32


class Splitter:
    """Follows the channels of one connection as they are opened and closed. Knows no sockets and no time.

    ``write`` is what hot frames of channels are written with.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.channels: dict[int, HotChannel] = {}
        self.took = 0
        """Frames that were not passed on so far."""
        self._write = write
        self._most = _UNTUNED
        self._held: list[bytes] = []
        self._size = 0
        self._wanted = frames.AROUND
        """Bytes to hold before it is worth looking again."""

    def feed(self, data: bytes) -> bytes:
        """Take what has come; returns the frames that are not hot, whole and in their order.

        Raises BadFrame for what is no AMQP.
        """
        self._held.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return b""
        if len(self._held) > 1:
            data = b"".join(self._held)
        passed, rest = self._split(data)
        self._held = [data[rest:]] if rest < len(data) else []
        self._size = len(data) - rest
        return passed

    def sent(self, data: bytes) -> None:
        """The client library writes these whole frames: nothing of ours may follow a close."""
        if data[:4] == frames.PROTOCOL_HEADER:
            return
        for number, payload in frames.methods(data):
            if payload[:4] == frames.CLOSE and number in self.channels:
                self.channels[number].end(End("closed by this side"))
            elif payload[:4] == frames.CONNECTION_CLOSE:
                self.end("the connection was closed by this side")

    def end(self, reason: str) -> None:
        """The connection is over, and every channel with it."""
        for channel in tuple(self.channels.values()):
            channel.end(End(reason))

    def _split(self, data: bytes) -> tuple[bytes, int]:
        """The frames to pass on, and where the first incomplete one begins."""
        position, kept, end = 0, 0, len(data)
        passed: list[bytes] = []
        self._wanted = frames.AROUND
        while end - position >= frames.AROUND:
            kind, number, size = frames.FRAME.unpack_from(data, position)
            start = position + frames.FRAME.size
            stop = start + size
            if size + frames.AROUND > self._most:
                raise BadFrame(f"a frame of {size} bytes; {self._most} were agreed")
            if stop >= end:
                self._wanted = size + frames.AROUND
                break
            if data[stop] != frames.END:
                raise BadFrame("a frame without an end")
            channel = self.channels.get(number)
            if channel is not None and channel.take(kind, data, start, stop):
                self.took += 1
                if kept < position:
                    passed.append(data[kept:position])
                kept = stop + 1
            elif kind == frames.METHOD:
                self._follow(number, data[start:stop])
            position = stop + 1
        if kept < position:
            passed.append(data[kept:position])
        return b"".join(passed), position

    def _follow(self, number: int, payload: bytes) -> None:
        match payload[:4]:
            case frames.OPEN_OK:
                self.channels[number] = HotChannel(number, self._write)
            case frames.CLOSE:
                self._forget(number, End(frames.reply_text(payload), refused=True))
            case frames.CLOSE_OK:
                self._forget(number, End("closed"))
            case frames.CONNECTION_CLOSE:
                self.end(frames.reply_text(payload))
            case frames.TUNE:
                self._most = frames.frame_max(payload) or _NO_LIMIT

    def _forget(self, number: int, end: End) -> None:
        channel = self.channels.pop(number, None)
        if channel is not None:
            channel.end(end)
