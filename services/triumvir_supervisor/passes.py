"""One pass of the supervisor: what silent schedulers sent, overdue orders, then holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from triumvir.runtime.decisions import Decider
from triumvir.runtime.orders_database import patient
from triumvir.runtime.relay import Relay
from triumvir.settings import Settings
from triumvir.store.documents import OrdersDatabase
from triumvir.store.session import Store
from triumvir_supervisor.aged import AgedOrders
from triumvir_supervisor.holds import Holds
from triumvir_supervisor.lone import LoneDocuments
from triumvir_supervisor.overdue import Overdue
from triumvir_supervisor.purge import Purge
from triumvir_supervisor.revival import Revival
from triumvir_supervisor.upkeep import Upkeep

BREATH_SECONDS: Final = 0.5


class Passes:
    """What is done at the supervisor's cadence."""

    def __init__(
        self,
        store: Store,
        relay: Relay,
        decider: Decider,
        settings: Settings,
        documents: OrdersDatabase | None,
    ) -> None:
        self._revival = Revival(store.session("revival"), relay, decider)
        self._overdue = Overdue(store.session("overdue"), relay, decider, settings)
        self._holds = Holds(store.session("holds"), relay, documents)
        self.aged = AgedOrders(store.session("aged"), relay, decider, settings)
        self.purge = Purge(store.session("purge"), settings, decider.who, documents)

    async def step(self) -> bool:
        """One pass. Never in a hurry: the next one comes at the interval."""
        await self._revival.step()
        await self._overdue.scan()
        await self._holds.release()
        return False

    async def once(self, upkeep: Upkeep, lone: LoneDocuments, done: Callable[[], None]) -> None:
        """One pass with its upkeep, for ``--once``: over all that is overdue, at the pace of all supervisors."""
        await self._revival.step()
        more = await self._overdue.scan()
        while more:
            await asyncio.sleep(BREATH_SECONDS)
            more = await self._overdue.scan()
        await self._holds.release()
        await upkeep.step()
        await self.aged.step()
        while await patient(lone.step)():
            pass
        await patient(self.purge.all)()
        done()
