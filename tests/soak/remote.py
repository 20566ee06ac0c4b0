"""The remote service in bad times: slow, refusing, or silent before or after its effect."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from aiohttp import web

from tests.faults.downstream import Downstream
from tests.faults.pressure import time_passes
from triumvir.testing import Call

Mood = Literal["slow", "fails", "hangs before its effect", "hangs after its effect"]
SLOWEST: Final = 0.8
"""Seconds; less than a lease, so that no call outlives who made it and what was undone meanwhile."""


class Remote:
    """``met`` counts the calls that each mood met."""

    def __init__(self, downstream: Downstream, seed: int) -> None:
        self.met: Counter[Mood] = Counter()
        self._chance = random.Random(f"{seed} remote")
        self._mood: Mood | None = None
        self._over = asyncio.Event()
        downstream.before = self._before
        downstream.after = self._after

    @contextmanager
    def being(self, mood: Mood) -> Iterator[None]:
        """While in the block every call meets this mood; who was left without an answer gets one afterwards."""
        self._mood, self._over = mood, asyncio.Event()
        try:
            yield
        finally:
            self._mood = None
            self._over.set()

    async def _before(self, call: Call) -> None:
        if self._mood == "slow":
            self.met["slow"] += 1
            await time_passes(self._chance.uniform(0.1, SLOWEST))
        elif self._mood == "fails":
            self.met["fails"] += 1
            raise web.HTTPServiceUnavailable
        elif self._mood == "hangs before its effect":
            self.met["hangs before its effect"] += 1
            await self._over.wait()
            raise web.HTTPServiceUnavailable

    async def _after(self, call: Call) -> None:
        if self._mood == "hangs after its effect":
            self.met["hangs after its effect"] += 1
            await self._over.wait()
