"""The course of a measurement: the systems take turns, so that what else the machine does hits both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from benchmarks.driver import Timing
from benchmarks.meters import BROKER_SECONDS, DATABASE_SECONDS, Counters, Cpu
from benchmarks.systems import System

WARM_UP_ORDERS: Final = 200
ROUND_SECONDS: Final = 240.0
"""A round that takes longer has failed."""


@dataclass(frozen=True)
class Plan:
    """What is measured. ``light_rate``: orders per second at light load."""

    rounds: int
    orders: int
    light_orders: int
    light_rate: float = 20.0


@dataclass(slots=True)
class Result:
    """One system under one load in one round. CPU in seconds per 1000 orders, by process."""

    system: str
    load: str
    round: int
    orders: int
    per_second: float
    cpu: dict[str, float]
    latencies: list[float]
    commits: float | None = None
    messages: float | None = None

    @property
    def cpu_total(self) -> float:
        return sum(self.cpu.values())

    def as_json(self) -> dict[str, Any]:
        """Everything but the single latencies."""
        return {**asdict(self), "latencies": len(self.latencies), "cpu_total": self.cpu_total}


@dataclass
class Course:
    """Runs a plan over systems; ``results`` grow as it goes."""

    plan: Plan
    systems: Sequence[System]
    counters: dict[str, Counters]
    idle_commits: float = 0.0
    """Commits per second of the services while nothing is to be done."""
    results: list[Result] = field(default_factory=list)

    async def run(self) -> list[Result]:
        """Warm-up, idle rate, then every round with the systems in turn, each first every other time."""
        for system in self.systems:
            orders = _ids("warm", 0, WARM_UP_ORDERS)
            await system.driver.saturated(orders, within=ROUND_SECONDS)
        await self._measure_idle()
        for number in range(1, self.plan.rounds + 1):
            turns = self.systems if number % 2 else self.systems[::-1]
            for load in ("saturated", "light"):
                for system in turns:
                    self.results.append(await self._measure(system, load, number))
        return self.results

    async def _measure_idle(self) -> None:
        await asyncio.sleep(DATABASE_SECONDS)
        counters = next(iter(self.counters.values()))
        before, began = await counters.commits(), time.monotonic()
        await asyncio.sleep(DATABASE_SECONDS)
        self.idle_commits = (await counters.commits() - before) / (time.monotonic() - began)

    async def _measure(self, system: System, load: str, number: int) -> Result:
        counters = self.counters[system.name]
        commits, messages = await counters.commits(), await counters.messages()
        cpu = Cpu.read(system.pids)
        timing = await self._drive(system, load, number)
        used = Cpu.read(system.pids).since(cpu)
        has_database = "postgres" in system.pids
        await asyncio.sleep(DATABASE_SECONDS if has_database else BROKER_SECONDS)
        waiting = self.idle_commits * DATABASE_SECONDS
        return Result(
            system.name,
            load,
            number,
            timing.orders,
            timing.per_second,
            {name: seconds * 1000 / timing.orders for name, seconds in used.items()},
            timing.latencies,
            (await counters.commits() - commits - waiting) / timing.orders
            if "postgres" in system.pids
            else None,
            (await counters.messages() - messages) / timing.orders,
        )

    async def _drive(self, system: System, load: str, number: int) -> Timing:
        if load == "saturated":
            orders = _ids(load, number, self.plan.orders)
            return await system.driver.saturated(orders, within=ROUND_SECONDS)
        orders = _ids(load, number, self.plan.light_orders)
        return await system.driver.light(orders, self.plan.light_rate, within=ROUND_SECONDS)


def _ids(load: str, number: int, count: int) -> list[str]:
    return [f"{load}-{number}-{place}" for place in range(count)]
