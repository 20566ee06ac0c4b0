"""Messages that left together, and what became of each."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Protocol

from aiormq.channel import Channel

from triumvir.broker.messages import Outcome, OutMessage

Landing = Outcome | None
"""What became of one publish. None: its channel was closed under it, and it may be the cause."""


class Volley:
    """What one call has started together. ``since`` is loop time; ``landed`` is by index, as answers come."""

    __slots__ = ("_all_landed", "_left", "landed", "since", "started")

    def __init__(self, since: float) -> None:
        self.since = since
        self.started = 0
        self.landed: dict[int, Landing] = {}
        self._left = 0
        self._all_landed: asyncio.Future[None] | None = None

    def expect(self) -> None:
        """One more is on its way."""
        self.started += 1
        self._left += 1

    def land(self, index: int, outcome: Landing) -> None:
        """The answer to the message at ``index`` has come; each has one."""
        self.landed[index] = outcome
        self._left -= 1
        if not self._left:
            self._wake()

    async def wait(self, timeout: float) -> None:
        """Until all have landed, ``timeout`` seconds at most."""
        if not self._left:
            return
        loop = asyncio.get_running_loop()
        self._all_landed = loop.create_future()
        over = loop.call_later(timeout, self._wake)
        try:
            await self._all_landed
        finally:
            over.cancel()

    def _wake(self) -> None:
        if self._all_landed is not None and not self._all_landed.done():
            self._all_landed.set_result(None)


class Lane(Protocol):
    """A channel that publishes, and what is in flight on it.

    A returned message is known by its id, so an id is in flight once: until the broker's answer or the end of the
    channel, even if the call that sent it has stopped waiting. Nothing else may publish on the channel, so the
    count of delivery tags stays right.
    """

    channel: Channel

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be published on it any more."""

    @property
    def was_refused(self) -> bool:
        """Whether the broker closed this channel, and no other, after something was sent on it."""

    @property
    def closed_because(self) -> str:
        """Why the channel closed, as the broker put it."""

    @property
    def takes_more(self) -> bool:
        """Whether :meth:`room` would return at once."""

    @property
    def in_flight(self) -> int:
        """How many publishes have no answer yet."""

    def start(self, messages: Sequence[OutMessage], indexes: Sequence[int]) -> tuple[Volley, list[int]]:
        """Send the messages at ``indexes`` whose id is not in flight. Returns their volley, and the other indexes."""

    def oldest(self) -> float | None:
        """Loop time at which the oldest publish in flight was started; None if there is none."""

    async def room(self) -> None:
        """Return once the connection takes more, or is lost."""

    async def one_lands(self, message_ids: Collection[str], timeout: float) -> None:
        """Until the first of these ids in flight is no longer, ``timeout`` seconds at most."""

    async def close(self) -> None:
        """Close the channel, unless it is closed or about to be: two closes that cross would end a later channel."""

    def cut_off(self) -> None:
        """End what still waits as unknown: nobody answers any more."""
