"""The order in which a process stops: first what takes work, then what does it, last its leases."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import groupby
from typing import Final, NamedTuple

from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

TAKING: Final = 10
"""Stop taking: consumers, claims."""
GATHERERS: Final = 20
"""Finish the batches of what was taken."""
LOOPS: Final = 30
"""Finish the step of each background loop."""
TASKS: Final = 40
"""Cancel what runs for as long as the process does."""
FLUSH: Final = 50
"""Send and acknowledge what is left."""
RELEASE: Final = 60
"""Give back leases."""

log = get_logger(__name__)


class Step(NamedTuple):
    name: str
    run: Callable[[], Awaitable[object]]
    order: int


class Drain:
    """Steps by order; equal orders at the same time."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._unfinished: set[str] = set()

    def add(self, name: str, step: Callable[[], Awaitable[object]], order: int) -> None:
        """Await ``step`` at its turn."""
        self._steps.append(Step(name, step, order))

    async def run(self, seconds: float) -> bool:
        """All steps, within ``seconds``. False: time ran out, or a step raised (the others ran all the same)."""
        by_order = sorted(self._steps, key=lambda step: step.order)
        went_well = finished = True
        try:
            async with asyncio.timeout(seconds):
                for _, steps in groupby(by_order, key=lambda step: step.order):
                    went_well = all(await asyncio.gather(*map(self._run_step, steps))) and went_well
        except TimeoutError:
            finished = False
        if not finished:
            log.error(events.SERVICE_DRAIN_INCOMPLETE, unfinished=sorted(self._unfinished), seconds=seconds)
        return finished and went_well

    async def _run_step(self, step: Step) -> bool:
        self._unfinished.add(step.name)
        try:
            await step.run()
        except Exception:  # one step that fails does not keep the others from running
            log.exception(events.DRAIN_STEP_FAILED, step=step.name)
            return False
        self._unfinished.discard(step.name)
        return True
