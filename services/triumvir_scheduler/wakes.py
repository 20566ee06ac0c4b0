"""Hints that there is work: they may be lost, and everything is also found by polling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from triumvir.broker import Consumer


class Wakes:
    """Settles hints and wakes the loops they are for."""

    def __init__(self, consumer: Consumer, wake: Sequence[Callable[[], None]]) -> None:
        self._consumer = consumer
        self._wake = wake

    async def step(self) -> bool:
        """Takes what hints are there; waits up to a second for one."""
        try:
            async with asyncio.timeout(1.0):
                hints = await self._consumer.batch(1000)
        except TimeoutError:
            return True
        for wake in self._wake:
            wake()
        if not hints:
            await asyncio.sleep(0.05)
        await self._consumer.settle(hints)
        return True
