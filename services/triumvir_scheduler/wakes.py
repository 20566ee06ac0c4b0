"""Hints that there is work: they may be lost, and everything is also found by polling."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from triumvir.broker import Consumer
from triumvir_scheduler.windows import Windows


class Wakes:
    """Settles hints and sets the events they are for."""

    def __init__(self, consumer: Consumer, windows: Windows, events: Sequence[asyncio.Event]) -> None:
        self._consumer = consumer
        self._windows = windows
        self._events = events

    async def step(self) -> bool:
        """Takes what hints are there; waits up to a second for one."""
        try:
            async with asyncio.timeout(1.0):
                hints = await self._consumer.batch(1000)
        except TimeoutError:
            return True
        if any(hint.headers.get("triumvir-released") for hint in hints):
            self._windows.look_again()
        for event in self._events:
            event.set()
        if not hints:
            await asyncio.sleep(0.05)
        await self._consumer.settle(hints)
        return True
