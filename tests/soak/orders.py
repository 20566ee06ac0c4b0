"""The load of a soak: a few orders at a time, at a steady pace, never more under way than two cores can carry."""

from __future__ import annotations

import asyncio
import math
import random
from functools import partial
from typing import Any, Final

from tests.faults.load import KINDS, Kind, Load
from tests.waiting import eventually
from triumvir.client.outcome import RESTS

WORKFLOWS: Final = ("trade", "trade", "choosy", "halting")
MOST_UNDER_WAY: Final = 24
BETWEEN: Final = (0.3, 1.5)
"""Seconds from one handful to the next."""
HANDFUL: Final = (1, 6)
ENDS: Final = ("processed", "compensated", "cancelled", "error", "compensation_failed")


def _stuck(chance: random.Random) -> dict[str, Any]:
    """Its undo fails as often as one round of tries allows, and works in the next."""
    return {"charge": {"fail": "permanent"}, "undo reserve": {"fail": "transient", "times": 8}}


MIX: Final = (*KINDS, Kind("stuck", 2, _stuck, ENDS))


class Orders:
    """Submits at random until it is told to stop; ``under_way`` are those that neither ended nor rest."""

    def __init__(self, load: Load, seed: int) -> None:
        self._load = load
        self._chance = random.Random(f"{seed} orders")
        load.mix = MIX

    @property
    def under_way(self) -> int:
        told = self._load.followed
        resting = sum(statuses[-1].status in RESTS for statuses in told.values() if statuses)
        return self._load.open - resting

    async def submit_until(self, over: asyncio.Event) -> None:
        """Returns once the last ones are confirmed. That none comes to an end for long is told by the audit: faults
        may have come that thick.
        """
        loop = asyncio.get_running_loop()
        while not over.is_set():
            self._load.workflow = self._chance.choice(WORKFLOWS)
            await self._load.submit(self._chance.randint(*HANDFUL))
            is_due = partial(self._is_due, over, loop.time() + self._chance.uniform(*BETWEEN))
            await eventually(is_due, within=math.inf, what="room for more orders")

    def _is_due(self, over: asyncio.Event, at: float) -> bool:
        is_time = asyncio.get_running_loop().time() >= at
        return over.is_set() or (is_time and self.under_way < MOST_UNDER_WAY)
