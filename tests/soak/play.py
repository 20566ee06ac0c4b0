"""The soak itself: faults and load for so long, then rest, then the audit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from tests.soak.actions import ACTIONS
from tests.soak.journal import Clock, Done, Journal
from tests.soak.operators import let_go
from tests.soak.outcome import Outcome, examined
from tests.soak.schedule import Fault, planned
from tests.soak.strikes import START_WITHIN
from tests.soak.system import System

TELL_EVERY: Final = 10.0
REST_WITHIN: Final = 300.0
LOOK_EVERY: Final = 2.0
Say = Callable[[str], None]


async def play(system: System, seconds: float, say: Say) -> Outcome:
    """Strike for so many seconds, come to rest, audit. AssertionError if nothing gets on any more."""
    clock, journal = Clock(), Journal(system.folder / "journal.jsonl")
    async with asyncio.TaskGroup() as group:
        load = group.create_task(system.orders.submit_until(system.over))
        telling = group.create_task(_tell(system, clock, journal, say))
        async with asyncio.TaskGroup() as strands:
            for faults in planned(system.seed, seconds).values():
                strands.create_task(_strike(system, clock, journal, faults))
            strands.create_task(_end(system, clock, seconds))
        await load
        say("faults and load have ended; everything comes to rest")
        await _rest(system)
        telling.cancel()
    return await examined(system, clock, journal)


async def _end(system: System, clock: Clock, seconds: float) -> None:
    await clock.reach(seconds)
    system.over.set()


async def _strike(system: System, clock: Clock, journal: Journal, faults: Sequence[Fault]) -> None:
    for fault in faults:
        if not await clock.passes(fault.waits, unless=system.over):
            return
        began = clock.seconds
        fired = await ACTIONS[fault.sort](system, fault)
        journal.note(Done(began, clock.seconds, fault, fired))


async def _tell(system: System, clock: Clock, journal: Journal, say: Say) -> None:
    at = TELL_EVERY
    while True:
        await clock.reach(at)
        at += TELL_EVERY
        accepted, way = len(system.cluster.load.accepted), system.orders.under_way
        say(f"{accepted} orders accepted, {way} under way; {len(journal.done)} faults")


async def _rest(system: System) -> None:
    """Everybody is well again, and nothing moves any more."""
    cluster = system.cluster
    await asyncio.gather(*(service.ready(START_WITHIN) for service in cluster.services.values()))
    await cluster.reconnect()
    settling = asyncio.create_task(cluster.settle(REST_WITHIN))
    while not settling.done():
        await let_go(system)
        await asyncio.wait([settling], timeout=LOOK_EVERY)
    await settling
