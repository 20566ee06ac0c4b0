"""What a channel writes goes through here: bursts in one piece, and nothing after its close.

aiormq hands frames to a short queue that all channels of a connection share. A publish or an ack that waits for
room there is written after the channel's close has been answered, and a frame on a closed channel is an error of
the whole connection: one bad publish would cut off everything else on it. (aiormq 7.2; a test holds this.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from aiormq.abc import ChannelFrame
from aiormq.channel import Channel
from aiormq.exceptions import ChannelInvalidStateError

_METHOD: Final = slice(7, 11)
_CLOSING: Final = (b"\x00\x14\x00\x28", b"\x00\x14\x00\x29")
"""channel.close and channel.close-ok, as class and method stand in a method frame."""


class Outlet:
    """Stands in for ``write_queue`` of one channel; aiormq uses ``put`` and ``put_nowait`` of it.

    ``closing`` gives a future that is done when the connection is closed.
    """

    def __init__(
        self, queue: asyncio.Queue[ChannelFrame], closing: Callable[[], asyncio.Future[Any]]
    ) -> None:
        self._queue = queue
        self._closing = closing
        self._loop = asyncio.get_running_loop()
        self._frames: list[ChannelFrame] = []
        self._shut = False
        self._flush_due = False
        self._waiting: asyncio.Task[None] | None = None

    @classmethod
    def attach(cls, channel: Channel) -> None:
        """Have ``channel`` write through an outlet of its own."""
        outlet = cls(channel.write_queue, lambda: channel.connection.closing)
        channel.write_queue = cast("asyncio.Queue[ChannelFrame]", outlet)

    async def put(self, frame: ChannelFrame) -> None:
        """Never waits. Raises ChannelInvalidStateError once the channel's close was written or answered."""
        self.put_nowait(frame)

    def put_nowait(self, frame: ChannelFrame) -> None:
        if frame.payload[_METHOD] in _CLOSING and frame.payload[0] == 1:
            self._shut = True
        elif self._shut:
            raise ChannelInvalidStateError("the channel is closing")
        self._frames.append(frame)
        if not self._flush_due and self._waiting is None:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        frames, self._frames = self._frames, []
        burst = _joined(frames)
        if self._queue.full():
            self._waiting = self._loop.create_task(self._wait_for_room(burst))
        else:
            self._queue.put_nowait(burst)

    async def _wait_for_room(self, burst: ChannelFrame) -> None:
        """Until the writer takes it, or the connection is gone and nobody ever will."""
        closing, put = self._closing(), asyncio.ensure_future(self._queue.put(burst))
        try:
            await asyncio.wait((put, closing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
            put.cancel()
            self._waiting = None
        if self._frames:
            self._flush()


def _joined(frames: list[ChannelFrame]) -> ChannelFrame:
    """One frame that writes all of them. None of a channel's frames ends the writer, or waits for a drain."""
    if len(frames) == 1:
        return frames[0]
    return ChannelFrame(payload=b"".join(frame.payload for frame in frames), should_close=False)
