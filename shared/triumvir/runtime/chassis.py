"""What a service is bolted onto: its loops, tasks, readiness checks, drain steps and resources."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Final, TypeVar
from uuid import uuid4

from triumvir.runtime.drain import GATHERERS, LOOPS, TASKS, Drain
from triumvir.runtime.gather import Gatherer
from triumvir.runtime.health import Check, Health
from triumvir.runtime.loops import Loop
from triumvir.runtime.pulse import Pulse
from triumvir.runtime.watchdog import Watchdog, Watched
from triumvir.settings import Settings
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

CLOSE_SECONDS: Final = 3.0

T = TypeVar("T")
R = TypeVar("R")
Work = Callable[[], Coroutine[Any, Any, object]]

log = get_logger(__name__)


class Chassis:
    """One process of a service. Wire it up in ``serve``; what was added starts when ``serve`` has returned.

    ``instance`` is fresh for each start. ``draining`` is set once the process is to stop.
    """

    def __init__(self, name: str, settings: Settings, instance: str | None = None) -> None:
        self.name = name
        self.settings = settings
        self.instance = instance or str(uuid4())
        self.draining = asyncio.Event()
        self.watchdog = Watchdog(settings.watchdog_timeout)
        self.health = Health(settings, self.watchdog, name, self.instance)
        self.failed = False
        self._drain = Drain()
        self._resources = AsyncExitStack()
        self._waiting_to_start: list[Callable[[], None]] | None = []
        self._tasks: set[asyncio.Task[object]] = set()

    async def enter(self, resource: AbstractAsyncContextManager[T]) -> T:
        """Open a resource (pool, broker); it is closed after the drain, the last one entered first."""
        return await self._resources.enter_async_context(resource)

    def add_loop(self, loop: Loop, *, order: int = LOOPS) -> None:
        """Run this loop, watched; draining lets it finish its step."""
        self._start(loop.name, loop.run, forever=True, order=order, stop=loop.stop, watched=loop)

    def add_gatherer(self, gatherer: Gatherer[T, R], *, order: int = GATHERERS) -> None:
        """Watch this gatherer; draining waits for what it holds."""
        self.watchdog.watch(gatherer)
        self.on_drain(gatherer.name, gatherer.drain, order=order)

    def add_task(
        self,
        name: str,
        work: Work,
        *,
        forever: bool = True,
        order: int = TASKS,
        watched: Watched | None = None,
    ) -> None:
        """Run ``work``; draining cancels it. If it raises, or returns although it is to run ``forever``, the
        process drains and exits non-zero. The watchdog looks at ``watched``."""
        self._start(name, work, forever=forever, order=order, watched=watched)

    def add_readiness(self, name: str, check: Check) -> None:
        """``/readyz`` fails while ``check`` returns what is wrong (None: nothing) or raises."""
        self.health.add_readiness(name, check)

    def on_drain(self, name: str, step: Callable[[], Awaitable[object]], *, order: int) -> None:
        """Await ``step`` when draining: lowest order first, equal orders at the same time."""
        self._drain.add(name, step, order)

    def request_drain(self) -> None:
        """Stop this process in good order."""
        self.draining.set()

    def fail(self, what: str, error: BaseException | str) -> None:
        """Something went wrong that this process cannot repair: log it, drain, exit non-zero."""
        self.failed = True
        log.error(
            events.TASK_FAILED,
            task=what,
            error=str(error) or type(error).__name__,
            exc_info=error if isinstance(error, BaseException) else None,
        )
        self.draining.set()

    async def run(self, serve: Callable[[Chassis], Awaitable[None]]) -> bool:
        """Start, run until told to drain, drain, close. Whether all of it went well.

        ``serve`` gets ``watchdog_timeout`` to return.
        """
        self.watchdog.start()
        pulse = Pulse()
        self.add_task(pulse.name, pulse.run, watched=pulse)
        if await self._set_up(serve):
            self._start_all()
            self.health.started = True
            log.info(events.SERVICE_STARTED, port=self.health.port)
            await self.draining.wait()
        await self._stop()
        return not self.failed

    async def _set_up(self, serve: Callable[[Chassis], Awaitable[None]]) -> bool:
        """Whether ``serve`` returned; it is cancelled when the process is told to stop meanwhile."""
        setup = asyncio.create_task(self._wire(serve), name="start")
        told = asyncio.create_task(self.draining.wait())
        await asyncio.wait([setup, told], return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if self.draining.is_set():
            setup.cancel()
            await asyncio.wait([setup], timeout=CLOSE_SECONDS)
        elif error := setup.exception():
            self.fail("start", error)
        return not self.draining.is_set()

    async def _wire(self, serve: Callable[[Chassis], Awaitable[None]]) -> None:
        await self.health.start()
        async with asyncio.timeout(self.settings.watchdog_timeout.total_seconds()):
            await serve(self)

    def _start(
        self,
        name: str,
        work: Work,
        *,
        forever: bool,
        order: int,
        stop: Callable[[], None] | None = None,
        watched: Watched | None = None,
    ) -> None:
        def start() -> None:
            if watched is not None:
                self.watchdog.watch(watched)
            task: asyncio.Task[object] = asyncio.create_task(work(), name=name)
            task.add_done_callback(lambda done: self._ended(done, forever))
            self._tasks.add(task)
            self.on_drain(name, lambda: _end(task, stop or task.cancel), order=order)

        if self._waiting_to_start is None:
            start()
        else:
            self._waiting_to_start.append(start)

    def _start_all(self) -> None:
        waiting, self._waiting_to_start = self._waiting_to_start or [], None
        for start in waiting:
            start()

    def _ended(self, task: asyncio.Task[object], forever: bool) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.fail(task.get_name(), error)
        elif (forever or task.cancelled()) and not self.draining.is_set():
            self.fail(task.get_name(), "ended although it is to run for as long as the process does")

    async def _stop(self) -> None:
        self.health.draining = True
        budget = self.settings.drain_timeout.total_seconds()
        self.watchdog.expect_exit_within(budget + 3 * CLOSE_SECONDS)
        log.info(events.SERVICE_DRAINING, seconds=budget)
        if not await self._drain.run(budget):
            self.failed = True
        for task in self._tasks:
            task.cancel()
        await self._close(self._resources.aclose, "resources")
        await self._close(self.health.stop, "health server")
        self.watchdog.stop()

    async def _close(self, close: Callable[[], Awaitable[None]], what: str) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await close()
        except Exception:  # the rest is closed all the same
            self.failed = True
            log.exception(events.DRAIN_STEP_FAILED, step=f"close {what}")


async def _end(task: asyncio.Task[object], stop: Callable[[], object]) -> None:
    """Ask ``task`` to end and wait for it; how it ended is told by its done callback."""
    stop()
    await asyncio.wait([task])
