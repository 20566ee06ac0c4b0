"""No progress ends the process, and only that does."""

from __future__ import annotations

from datetime import timedelta

import pytest
import structlog
from structlog.testing import LogCapture

from triumvir.runtime.watchdog import EXIT_CODE, Watchdog
from triumvir.telemetry import events


@pytest.fixture(autouse=True)
def logged() -> LogCapture:
    capture = LogCapture()
    structlog.configure(processors=[capture])
    return capture


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Worker:
    """Makes progress when told to."""

    name = "claims"

    def __init__(self, clock: Clock) -> None:
        self._progress_at = clock.now

    def stalled_for(self, now: float) -> float:
        return now - self._progress_at

    def progress(self, clock: Clock) -> None:
        self._progress_at = clock.now


class Bench:
    """A watchdog of 60 s over one worker, on a clock of its own; ``ended`` are the exit codes."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.ended: list[int] = []
        self.worker = Worker(self.clock)
        self.watchdog = Watchdog(timedelta(seconds=60), self.clock, self.ended.append)
        self.watchdog.watch(self.worker)

    def pass_time(self, seconds: int, step: int = 10) -> None:
        for _ in range(0, seconds, step):
            self.clock.now += step
            self.watchdog.check()


def test_a_stall_of_the_timeout_ends_the_process_and_says_what_stalled(logged: LogCapture) -> None:
    bench = Bench()
    bench.pass_time(50)
    assert bench.ended == []
    bench.pass_time(10)
    assert bench.ended == [EXIT_CODE]
    (entry,) = logged.entries
    assert (entry["event"], entry["stalled"]) == (events.SERVICE_STALLED, {"claims": 60.0})
    assert "test_watchdog.py" in entry["stacks"]["thread"]


def test_progress_keeps_the_process_alive() -> None:
    bench = Bench()
    for _ in range(10):
        bench.pass_time(50)
        bench.worker.progress(bench.clock)
    assert bench.ended == []


def test_what_is_stalled_is_told_to_the_health_page() -> None:
    bench = Bench()
    bench.pass_time(30)
    assert bench.watchdog.progress() == {"claims": 30.0}
    assert bench.watchdog.stalled() == {}
    bench.pass_time(30)
    assert bench.watchdog.stalled() == {"claims": 60.0}


def test_a_process_that_was_suspended_gets_its_time_again() -> None:
    bench = Bench()
    bench.pass_time(20)
    bench.pass_time(3600, step=3600)
    assert bench.ended == []
    bench.pass_time(50)
    assert bench.ended == []
    bench.pass_time(10)
    assert bench.ended == [EXIT_CODE]


def test_an_exit_that_takes_too_long_is_enforced(logged: LogCapture) -> None:
    bench = Bench()
    bench.watchdog.expect_exit_within(12)
    bench.pass_time(10, step=2)
    assert bench.ended == []
    bench.pass_time(2, step=2)
    assert bench.ended == [EXIT_CODE]
    assert logged.entries[0]["event"] == events.SERVICE_KILLED


def test_while_draining_only_the_exit_counts() -> None:
    bench = Bench()
    bench.watchdog.expect_exit_within(600)
    bench.pass_time(590)
    assert bench.ended == []
