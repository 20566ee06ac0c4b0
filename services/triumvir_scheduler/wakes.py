"""Hints that there is work: they may be lost, and everything is also found by polling."""

from __future__ import annotations

import asyncio

from triumvir.broker import Consumer
from triumvir.runtime.hints import COMMANDS_HEADER, RELEASED_HEADER, named_orders
from triumvir_scheduler.claimable import Claimable
from triumvir_scheduler.windows import Windows


class Wakes:
    """Settles hints and sets the event of each: there is something to claim, or something was asked for."""

    def __init__(
        self, consumer: Consumer, windows: Windows, claimable: Claimable, commanded: asyncio.Event
    ) -> None:
        self._consumer = consumer
        self._windows = windows
        self._claimable = claimable
        self._commanded = commanded

    async def step(self) -> bool:
        """Takes what hints are there; waits up to a second for one."""
        try:
            async with asyncio.timeout(1.0):
                hints = await self._consumer.batch(1000)
        except TimeoutError:
            return True
        if any(hint.headers.get(RELEASED_HEADER) for hint in hints):
            self._windows.look_again()
        if any(hint.headers.get(COMMANDS_HEADER) for hint in hints):
            self._commanded.set()
        if not hints:
            await asyncio.sleep(0.05)
        for hint in hints:
            if named := named_orders(hint.headers):
                self._claimable.name(named)
            else:
                self._claimable.set()
        await self._consumer.settle(hints)
        return True
