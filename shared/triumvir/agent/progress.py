"""Reports of an operation at work: the latest of them leaves, once in a second at most. Reporting never waits, never
fails the call, and whatever is not out when the operation ends stays unsaid: its answer says more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

REPORTED_EVERY: Final = 1.0
"""Seconds between two reports of one request, at least."""
LONGEST_REPORT: Final = 500
"""Characters; what is longer is cut."""


class Reporter:
    """Of one request: ``send`` gets a text and its count, from 1. Made in the event loop that is to send; operations
    may report from threads.
    """

    def __init__(self, send: Callable[[str, int], Awaitable[None]]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._latest = ""
        self._news = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._closed = False

    def report(self, text: str) -> None:
        """Sends it as soon as its turn comes, unless a later one comes first. After :meth:`close` it does nothing."""
        if not self._closed:
            self._loop.call_soon_threadsafe(self._note, _storable(text))

    def close(self) -> None:
        """The operation has ended, or nobody waits for it any more."""
        self._closed = True
        if self._sender is not None:
            self._sender.cancel()

    def _note(self, text: str) -> None:
        if self._closed:
            return
        self._latest = text
        self._news.set()
        if self._sender is None:
            self._sender = self._loop.create_task(self._send_all(), name="progress")

    async def _send_all(self) -> None:
        count = 0
        while True:
            await self._news.wait()
            self._news.clear()
            count += 1
            await self._send(self._latest, count)
            await asyncio.sleep(REPORTED_EVERY)


def _storable(text: str) -> str:
    """What Postgres and every reader can keep of it."""
    readable = str(text).replace("\x00", "\\0").encode("utf-8", "backslashreplace").decode()
    return readable[:LONGEST_REPORT]
