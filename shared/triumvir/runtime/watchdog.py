"""Ends a process that makes no progress; from a thread of its own, so a blocked event loop is seen too."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final, Protocol

from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

EXIT_CODE: Final = 70
CHECKS_PER_TIMEOUT: Final = 6

log = get_logger(__name__)


class Watched(Protocol):
    """Something that must make progress: a Loop, a Gatherer."""

    @property
    def name(self) -> str: ...

    def stalled_for(self, now: float) -> float:
        """Seconds without progress; 0 while there is nothing to do. ``now`` is ``time.monotonic()``."""
        ...


class Watchdog:
    """Checks all that is watched; when one has been stalled for ``timeout`` the process exits with code 70.

    Time in which this process was itself suspended does not count. :meth:`expect_exit_within` bounds the end
    of the process, whatever may hang in it.
    """

    def __init__(
        self,
        timeout: timedelta,
        clock: Callable[[], float] = time.monotonic,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._timeout = timeout.total_seconds()
        self._clock = clock
        self._end = end
        self._period = self._timeout / CHECKS_PER_TIMEOUT
        self._watched: list[Watched] = []
        self._checked_at = self._resumed_at = clock()
        self._exit_by: float | None = None
        self._stopping = False
        self._nudged = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = threading.get_ident()

    def watch(self, watched: Watched) -> None:
        """Watch this as well."""
        self._watched.append(watched)

    def stalled(self) -> dict[str, float]:
        """Seconds without progress by name, of what has been stalled for the timeout or longer."""
        return {name: seconds for name, seconds in self.progress().items() if seconds >= self._timeout}

    def progress(self) -> dict[str, float]:
        """Seconds without progress by name, of all that is watched; 0 is as it should be."""
        now = self._clock()
        since_resumed = now - self._resumed_at
        return {
            watched.name: round(min(watched.stalled_for(now), since_resumed), 1)
            for watched in list(self._watched)
        }

    def expect_exit_within(self, seconds: float) -> None:
        """From now on the process has ``seconds`` left, then it is ended with code 70."""
        self._exit_by = self._clock() + seconds
        self._period = min(self._period, seconds / CHECKS_PER_TIMEOUT)
        self._nudged.set()

    def check(self) -> None:
        """One look; ends the process when something is stalled or the time to exit is over."""
        now = self._clock()
        if now - self._checked_at > 2 * self._period:
            self._resumed_at = now
        self._checked_at = now
        stalled = self.stalled()
        if self._exit_by is not None and now >= self._exit_by:
            self._kill(events.SERVICE_KILLED, {"exit": round(now - self._exit_by, 1)})
        elif stalled and self._exit_by is None:
            self._kill(events.SERVICE_STALLED, stalled)

    def start(self) -> None:
        """Check from a daemon thread until :meth:`stop`."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping = True
        self._nudged.set()

    def _run(self) -> None:
        self._checked_at = self._resumed_at = self._clock()
        while not self._stopping:
            self._nudged.wait(self._period)
            self._nudged.clear()
            if not self._stopping:
                self.check()

    def _kill(self, event: str, stalled: dict[str, float]) -> None:
        log.critical(event, stalled=stalled, stacks=self._stacks(stalled))
        self._end(EXIT_CODE)

    def _stacks(self, stalled: dict[str, float]) -> dict[str, str]:
        """Where the event loop's thread and the tasks named like what is stalled stand."""
        frame = sys._current_frames().get(self._loop_thread)
        stacks = {"thread": "".join(traceback.format_stack(frame))} if frame is not None else {}
        for task in asyncio.all_tasks(self._loop) if self._loop is not None else ():
            if task.get_name() in stalled:
                stacks[task.get_name()] = "".join(_awaiting(task.get_coro()))
        return stacks


def _awaiting(coroutine: object) -> Iterator[str]:
    """Where a suspended coroutine stands, from the outside in (a task's own stack shows its first frame only)."""
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        yield from traceback.format_stack(frame, limit=1)
        coroutine = getattr(coroutine, "cr_await", None)
