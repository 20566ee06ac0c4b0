"""A process stops in order, and what fails or hangs does not keep the rest from stopping."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import structlog
from structlog.testing import LogCapture

from triumvir.runtime.drain import FLUSH, GATHERERS, LOOPS, RELEASE, TAKING, TASKS, Drain
from triumvir.telemetry import events


@pytest.fixture(autouse=True)
def logged() -> LogCapture:
    capture = LogCapture()
    structlog.configure(processors=[capture])
    return capture


def test_taking_stops_before_what_finishes_and_leases_go_last() -> None:
    assert TAKING < GATHERERS < LOOPS < TASKS < FLUSH < RELEASE


async def test_steps_run_by_order_not_by_registration() -> None:
    ran: list[str] = []

    def step(name: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            ran.append(name)

        return run

    drain = Drain()
    for name, order in (("release", RELEASE), ("taking", TAKING), ("loop", LOOPS)):
        drain.add(name, step(name), order)
    assert await drain.run(5)
    assert ran == ["taking", "loop", "release"]


async def test_equal_orders_run_at_the_same_time() -> None:
    both = asyncio.Barrier(2)
    drain = Drain()
    drain.add("a", both.wait, TAKING)
    drain.add("b", both.wait, TAKING)
    assert await drain.run(5)


async def test_a_step_that_raises_is_told_and_the_rest_runs(logged: LogCapture) -> None:
    ran = asyncio.Event()

    async def broken() -> None:
        raise ConnectionError("gone")

    async def rest() -> None:
        ran.set()

    drain = Drain()
    drain.add("broken", broken, TAKING)
    drain.add("rest", rest, RELEASE)
    assert not await drain.run(5)
    assert ran.is_set()
    assert [(entry["event"], entry["step"]) for entry in logged.entries] == [
        (events.DRAIN_STEP_FAILED, "broken")
    ]


async def test_a_step_that_hangs_is_named_when_time_is_up(logged: LogCapture) -> None:
    drain = Drain()
    drain.add("consumer", asyncio.Event().wait, TAKING)
    assert not await drain.run(0.01)
    (entry,) = logged.entries
    assert (entry["event"], entry["unfinished"]) == (events.SERVICE_DRAIN_INCOMPLETE, ["consumer"])
