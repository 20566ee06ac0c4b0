"""The skeleton of every background loop: step again while there is work, else wait for hint or interval."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from triumvir.telemetry import events, metrics
from triumvir.telemetry.logs import get_logger

INTERVAL_JITTER: Final = 0.1
BACKOFF_FIRST_SECONDS: Final = 0.1
BACKOFF_MAX_SECONDS: Final = 15.0

log = get_logger(__name__)


class Loop:
    """Runs ``step`` until stopped.

    ``step`` returns whether it found work: if so it runs again at once, otherwise after ``interval`` (± 10 %)
    or :meth:`wake`. When it raises, the error is logged, the loop backs off (doubling, at most 15 s; a wake
    does not cut that short) and the step counts as no progress. ``wake`` may be an event that others set.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], Awaitable[bool]],
        interval: timedelta,
        wake: asyncio.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._step = step
        self._interval = interval.total_seconds()
        self._wake = wake or asyncio.Event()
        self._stopping = asyncio.Event()
        self._clock = clock
        self._due_at = clock()
        self._failures = 0
        self._last_error = ""

    def wake(self) -> None:
        """There may be work: run the next step now instead of at the interval."""
        self._wake.set()

    def stop(self) -> None:
        """Finish the step in hand, then end :meth:`run`."""
        self._stopping.set()
        self._wake.set()

    def stalled_for(self, now: float) -> float:
        """Seconds since a step began, or was due, that has not succeeded since (for the watchdog)."""
        return max(0.0, now - self._due_at)

    async def run(self) -> None:
        """Step until :meth:`stop`; never raises what a step raised."""
        self._due_at = self._clock()
        while not self._stopping.is_set():
            self._wake.clear()
            delay = await self._run_step()
            if self._failures:
                await _wait(self._stopping, delay)
            elif delay:
                await _wait(self._wake, delay)
            else:
                await asyncio.sleep(0)  # a step that never suspends must not starve the others

    async def _run_step(self) -> float:
        """Seconds to wait before the next step."""
        self._due_at = min(self._due_at, self._clock())
        try:
            worked = await self._step()
        except Exception as error:  # noqa: BLE001 - a background loop outlives any failed step
            return self._failed(error)
        jitter = random.uniform(1 - INTERVAL_JITTER, 1 + INTERVAL_JITTER)
        delay = 0.0 if worked else self._interval * jitter
        self._succeeded(delay)
        return delay

    def _failed(self, error: Exception) -> float:
        self._failures += 1
        metrics.LOOP_FAILURES.add(1, self.name)
        described = f"{type(error).__name__}: {error}"
        repeated, self._last_error = described == self._last_error, described
        log.error(
            events.LOOP_FAILED,
            loop=self.name,
            error=described,
            failures=self._failures,
            exc_info=None if repeated else error,
        )
        return backoff(self._failures, random.random())

    def _succeeded(self, delay: float) -> None:
        self._due_at = self._clock() + delay
        if self._failures:
            log.info(events.LOOP_RECOVERED, loop=self.name, failures=self._failures)
            self._failures, self._last_error = 0, ""


def backoff(failures: int, chance: float) -> float:
    """Seconds to wait after the ``failures``-th failure in a row; ``chance`` from 0 to 1 spreads it.

    >>> [backoff(n, 1.0) for n in (1, 2, 3, 30)]
    [0.1, 0.2, 0.4, 15.0]
    >>> backoff(1, 0.0)
    0.05
    """
    full = min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** min(failures - 1, 30))
    return full * (0.5 + 0.5 * chance)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
