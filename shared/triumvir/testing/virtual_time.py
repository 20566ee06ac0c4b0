"""An event loop whose time is virtual: when nothing is left to run, it jumps to the next timer.

Ten minutes of ``asyncio.sleep`` or ``asyncio.timeout`` pass at once. While a thread, or a socket, is at work the loop
waits for it in real time: that costs no virtual time for the first second, and from then on as much as really passes.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_PATIENCE: Final = 1.0
"""Real seconds that threads and sockets are given before virtual time goes on with the real one."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Begins at 0.0 seconds. Not for programs that serve somebody: only what waits for itself can be hurried."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._threads = 0
        super().__init__(_Hurrying(self))
        self._own_sockets = len(self._registered())

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._seconds

    def jump(self, seconds: float) -> None:
        """Lets virtual time pass."""
        self._seconds += seconds

    @property
    def waits_for_others(self) -> bool:
        """Whether something outside is at work that may still call back: a thread, or the other end of a socket."""
        return self._threads > 0 or len(self._registered()) > self._own_sockets

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As every loop does; counted, so that time does not run away from what is at work."""
        future = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._thread_is_done)
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        """Threads that are still at work are waited for in real time."""
        self._threads += 1
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self._threads -= 1

    def _thread_is_done(self, _: asyncio.Future[Any]) -> None:
        self._threads -= 1

    def _registered(self) -> Mapping[Any, selectors.SelectorKey]:
        selector: _Hurrying = self._selector  # type: ignore[attr-defined]
        return selector.get_map()


class _Hurrying(selectors.DefaultSelector):
    """Does not wait for what comes by itself."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:
            return super().select(None)  # nothing is planned: only others can call back
        if not self._loop.waits_for_others:
            self._loop.jump(timeout)
            return []
        ready = super().select(_PATIENCE)
        if not ready:
            self._loop.jump(min(timeout, _PATIENCE))
        return ready


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What ``main`` returns, run on a loop of virtual time. Blocks, for as long as the work itself really takes."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main())
