"""The confirm book of one channel: what was published, by delivery tag, until the broker has answered."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import NamedTuple

from triumvir.broker.fast.frames import BadFrame
from triumvir.broker.messages import Outcome
from triumvir.broker.volley import Landing, Volley


class _Entry(NamedTuple):
    message_id: str
    volley: Volley
    place: int


class Book:
    """Tags count from 1, in the order in which messages are entered, which is the order in which they are written."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._tags: dict[str, int] = {}
        self._returned: set[int] = set()
        self._watched: dict[str, asyncio.Future[None]] = {}
        self._last = 0
        self._low = 1
        """Nothing before it is open."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, message_id: str) -> bool:
        """Whether a message of this id is in flight."""
        return message_id in self._tags

    def enter(self, message_id: str, volley: Volley, index: int) -> None:
        """The next message is written now. Its id is not in flight."""
        self._last += 1
        self._entries[self._last] = _Entry(message_id, volley, index)
        self._tags[message_id] = self._last

    def confirmed(self, tag: int, *, multiple: bool, outcome: Outcome) -> None:
        """The broker has answered ``tag``, with ``multiple`` all before it as well.

        Raises BadFrame for a tag that was not given out.
        """
        if tag == 0 and multiple:
            tag = self._last
        if not 0 < tag <= self._last:
            raise BadFrame(f"a confirm of publish {tag}, of {self._last}")
        if not multiple:
            self._land(tag, outcome)
            return
        for each in range(self._low, tag + 1):
            self._land(each, outcome)
        self._low = max(self._low, tag + 1)

    def returned(self, message_id: str | None) -> None:
        """No queue was bound for it; its confirm follows."""
        tag = self._tags.get(message_id) if message_id is not None else None
        if tag is not None:
            self._returned.add(tag)

    def oldest(self) -> float | None:
        """Loop time at which the oldest message in flight was written; None if there is none."""
        while self._low <= self._last and self._low not in self._entries:
            self._low += 1
        return self._entries[self._low].volley.since if self._entries else None

    async def one_lands(self, message_ids: Collection[str], timeout: float) -> None:
        """Until the first of these ids in flight is no longer, ``timeout`` seconds at most."""
        loop = asyncio.get_running_loop()
        watched = {self._watched.setdefault(message_id, loop.create_future()) for message_id in message_ids}
        await asyncio.wait(watched, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)

    def close(self, outcome: Landing) -> None:
        """No answer comes any more: this is what became of all that have none."""
        for tag in tuple(self._entries):
            self._land(tag, outcome)

    def _land(self, tag: int, outcome: Landing) -> None:
        entry = self._entries.pop(tag, None)
        if entry is None:
            return
        del self._tags[entry.message_id]
        if tag in self._returned:
            self._returned.discard(tag)
            outcome = Outcome.RETURNED
        entry.volley.land(entry.place, outcome)
        if self._watched and (watched := self._watched.pop(entry.message_id, None)) and not watched.done():
            watched.set_result(None)
