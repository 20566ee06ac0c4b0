"""A background loop steps while there is work, waits without turning hot, and outlives what its steps raise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
import structlog
from structlog.testing import LogCapture

from triumvir.runtime import loops
from triumvir.runtime.loops import Loop, backoff
from triumvir.telemetry import events, metrics

HOUR = timedelta(hours=1)


@pytest.fixture
def logged() -> LogCapture:
    capture = LogCapture()
    structlog.configure(processors=[capture])
    return capture


class Steps:
    """Plays a list of outcomes, then is idle; ``count`` steps can be waited for."""

    def __init__(self, *outcomes: bool | Exception) -> None:
        self.outcomes = list(outcomes)
        self.count = 0
        self._stepped = asyncio.Condition()

    async def step(self) -> bool:
        async with self._stepped:
            self.count += 1
            self._stepped.notify_all()
        outcome = self.outcomes.pop(0) if self.outcomes else False
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def reached(self, count: int) -> None:
        async with asyncio.timeout(5), self._stepped:
            await self._stepped.wait_for(lambda: self.count >= count)


@asynccontextmanager
async def running(loop: Loop) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(loop.run())
    try:
        yield task
    finally:
        loop.stop()
        await within(task)


async def within(awaitable: Awaitable[object], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        await awaitable


async def test_it_steps_again_at_once_while_there_is_work_and_then_waits() -> None:
    steps = Steps(True, True, True)
    async with running(Loop("claims", steps.step, HOUR)):
        await steps.reached(4)
        for _ in range(20):
            await asyncio.sleep(0)
        assert steps.count == 4


async def test_a_wake_ends_the_wait() -> None:
    steps = Steps()
    loop = Loop("claims", steps.step, HOUR)
    async with running(loop):
        await steps.reached(1)
        loop.wake()
        await steps.reached(2)


async def test_a_wake_during_a_step_is_not_lost() -> None:
    hint, steps = asyncio.Event(), Steps()

    async def step() -> bool:
        await steps.step()
        if steps.count == 1:
            hint.set()
        return False

    async with running(Loop("claims", step, HOUR, wake=hint)):
        await steps.reached(2)


async def test_without_a_wake_the_interval_brings_the_next_step() -> None:
    steps = Steps()
    async with running(Loop("claims", steps.step, timedelta(milliseconds=5))):
        await steps.reached(3)


async def test_stopping_finishes_the_step_in_hand() -> None:
    entered, release, finished = asyncio.Event(), asyncio.Event(), []

    async def step() -> bool:
        entered.set()
        await release.wait()
        finished.append(True)
        return True

    loop = Loop("claims", step, HOUR)
    async with running(loop) as task:
        await within(entered.wait())
        loop.stop()
        await asyncio.sleep(0)
        assert not task.done()
        release.set()
        await within(task)
    assert finished == [True]


async def test_a_step_that_raises_is_logged_once_with_its_traceback_and_the_loop_goes_on(
    logged: LogCapture,
) -> None:
    failures = metrics.LOOP_FAILURES.counts.get(("claims",), 0)
    steps = Steps(ConnectionError("lost"), ConnectionError("lost"))
    async with running(Loop("claims", steps.step, HOUR)):
        await steps.reached(3)
    failed = [entry for entry in logged.entries if entry["event"] == events.LOOP_FAILED]
    assert [(entry["loop"], entry["failures"]) for entry in failed] == [("claims", 1), ("claims", 2)]
    assert [isinstance(entry["exc_info"], ConnectionError) for entry in failed] == [True, False]
    assert [entry["event"] for entry in logged.entries][-1] == events.LOOP_RECOVERED
    assert metrics.LOOP_FAILURES.counts["claims",] == failures + 2


@pytest.mark.usefixtures("logged")
async def test_a_failing_loop_cannot_be_woken_into_a_hot_loop() -> None:
    steps = Steps(*[RuntimeError("always") for _ in range(50)])
    loop = Loop("claims", steps.step, timedelta(0))
    async with running(loop):
        await steps.reached(1)
        for _ in range(200):
            loop.wake()
            await asyncio.sleep(0)
        assert steps.count <= 2


@pytest.mark.usefixtures("logged")
async def test_stopping_does_not_wait_for_a_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "backoff", lambda failures, chance: 3600.0)
    steps = Steps(RuntimeError("always"))
    async with running(Loop("claims", steps.step, HOUR)):
        await steps.reached(1)
        await asyncio.sleep(0)


@pytest.mark.usefixtures("logged")
async def test_only_a_step_that_succeeds_is_progress() -> None:
    now = 100.0
    steps = Steps(RuntimeError("x"), False)
    loop = Loop("claims", steps.step, timedelta(seconds=10), clock=lambda: now)
    async with running(loop):
        await steps.reached(1)
        now = 160.0
        assert loop.stalled_for(now) == 60.0
        await steps.reached(2)
        await asyncio.sleep(0)
        assert loop.stalled_for(168.0) == 0.0
        assert loop.stalled_for(180.0) == pytest.approx(10.0, abs=1.0)


def test_a_backoff_doubles_to_its_cap_and_is_spread() -> None:
    assert [backoff(n, 1.0) for n in (1, 2, 3, 8, 9, 500)] == [0.1, 0.2, 0.4, 12.8, 15.0, 15.0]
    assert backoff(2, 0.0) == 0.1
