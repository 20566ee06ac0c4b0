"""An author's code runs beside the request that asked for it: it has its time and no more, and whatever it does it
takes neither the request nor its neighbours with it.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final

GRACE: Final = timedelta(seconds=1)
"""So long a cancelled operation may take to put things right."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an operation ended: what it returned, or what it raised. ``cut_off``: its time was over before."""

    returned: Any = None
    raised: BaseException | None = None
    cut_off: bool = False
    never_began: bool = False


class NeverBegan(BaseException):
    """The time was over while the function waited for a thread, and it will not be called any more."""


class Runner:
    """Runs operations, plain ones in ``threads`` threads of its own (None: the event loop's).

    ``left_behind`` counts those that went on when their time was over and they were cancelled: functions cannot be
    stopped from outside, and a coroutine may refuse. Each keeps its slot until it ends. ``changed`` is called when
    their number falls.
    """

    def __init__(self, threads: int | None = None, changed: Callable[[], None] = lambda: None) -> None:
        self._threads = (
            None if threads is None else ThreadPoolExecutor(threads, thread_name_prefix="operation")
        )
        self.changed = changed
        self.left_behind = 0

    async def run(
        self, function: Callable[..., Any], is_async: bool, time_left: timedelta, *arguments: Any
    ) -> Ended:
        """Runs it to its end, or until ``time_left`` is over and it was cancelled. Never raises what it raised."""
        work = partial(function, *arguments) if is_async else partial(self.in_thread, function, arguments)
        task = asyncio.create_task(_guarded(work), name="operation")
        try:
            await asyncio.wait({task}, timeout=time_left.total_seconds())
            if task.done():
                return task.result()
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE.total_seconds())
        except BaseException:
            task.cancel()
            raise
        if task.cancelled():
            return Ended(None, NeverBegan(), True, True)
        if task.done():
            ended = task.result()
            return Ended(ended.returned, ended.raised, True, isinstance(ended.raised, NeverBegan))
        self.left_behind += 1
        task.add_done_callback(self._returned)
        return Ended(None, TimeoutError("it went on when its time was over and it was cancelled"), True)

    async def in_thread(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """What a plain function returns, run in a thread."""
        context, loop = contextvars.copy_context(), asyncio.get_running_loop()
        call = partial(context.run, _called, function, *arguments)
        if self._threads is None:
            return await loop.run_in_executor(None, call)
        future = self._threads.submit(call)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if future.cancel():
                raise NeverBegan from None
            self._leave_behind(future, loop)
            raise

    def _leave_behind(self, future: Future[Any], loop: asyncio.AbstractEventLoop) -> None:
        self.left_behind += 1
        future.add_done_callback(
            lambda _: loop.call_soon_threadsafe(self._returned) if loop.is_running() else None
        )

    def _returned(self, _: object = None) -> None:
        self.left_behind -= 1
        self.changed()


async def _guarded(work: Callable[[], Coroutine[Any, Any, Any]]) -> Ended:
    """Whatever it raises is a value: an exception that ends processes must not end this one."""
    try:
        return Ended(await work())
    except BaseException as error:  # noqa: BLE001 - the caller looks at it
        return Ended(raised=error)


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """A future cannot carry StopIteration: whoever waits for it would wait for ever."""
    try:
        return function(*arguments)
    except StopIteration as error:
        raise RuntimeError("StopIteration") from error
