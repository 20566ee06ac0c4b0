"""One pass of the supervisor: overdue orders, then holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from triumvir.runtime.orders_database import patient
from triumvir_supervisor.aged import AgedOrders
from triumvir_supervisor.holds import Holds
from triumvir_supervisor.lone import LoneDocuments
from triumvir_supervisor.overdue import Overdue
from triumvir_supervisor.upkeep import Upkeep

BREATH_SECONDS: Final = 0.5


class Passes:
    """What is done at the supervisor's cadence."""

    def __init__(self, overdue: Overdue, holds: Holds, aged: AgedOrders) -> None:
        self._overdue = overdue
        self._holds = holds
        self._aged = aged

    async def step(self) -> bool:
        """One pass. Never in a hurry: the next one comes at the interval."""
        await self._overdue.scan()
        await self._holds.release()
        return False

    async def once(self, upkeep: Upkeep, lone: LoneDocuments, done: Callable[[], None]) -> None:
        """One pass with its upkeep, for ``--once``: over all that is overdue, at the pace of all supervisors."""
        more = await self._overdue.scan()
        while more:
            await asyncio.sleep(BREATH_SECONDS)
            more = await self._overdue.scan()
        await self._holds.release()
        await upkeep.step()
        await self._aged.step()
        while await patient(lone.step)():
            pass
        done()
