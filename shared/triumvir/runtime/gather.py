"""Group commit: what arrives while a batch is being handled forms the next. Nothing waits for more."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from triumvir.errors import Draining

T = TypeVar("T")
R = TypeVar("R")


class Gatherer(Generic[T, R]):
    """Gathers items into batches of at most ``limit``; one batch is handled at a time, in order of arrival.

    ``handle_batch`` gets the items and returns one result for each, in the same order. Its exception goes to
    every caller of that batch and to nobody else. An item whose caller was cancelled before its batch began
    is left out; afterwards its result is dropped.
    """

    def __init__(
        self,
        handle_batch: Callable[[list[T]], Awaitable[list[R]]],
        limit: int,
        name: str = "gatherer",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._handle_batch = handle_batch
        self._limit = limit
        self._clock = clock
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._runner: asyncio.Task[None] | None = None
        self._busy_since: float | None = None
        self._draining = False
        self._context = contextvars.copy_context()  # a batch runs in no single caller's log context

    async def submit(self, item: T) -> R:
        """The result of ``item``, once its batch was handled. Raises Draining after :meth:`drain`."""
        if self._draining:
            raise Draining(f"{self.name} takes nothing new")
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._runner is None:
            self._runner = asyncio.create_task(self._run(), name=self.name, context=self._context)
        return await future

    async def drain(self) -> None:
        """Take nothing new; return when everything taken was handled."""
        self._draining = True
        if self._runner is not None:
            await asyncio.wait([self._runner])

    def stalled_for(self, now: float) -> float:
        """Seconds that the present batch has been running; 0 while idle (for the watchdog)."""
        return 0.0 if self._busy_since is None else now - self._busy_since

    async def _run(self) -> None:
        try:
            while self._waiting:
                if batch := self._next_batch():
                    self._busy_since = self._clock()
                    await self._settle(batch)
                self._busy_since = None
        finally:
            self._runner = None
            self._busy_since = None
            _abandon(self._waiting)
            self._waiting.clear()

    def _next_batch(self) -> list[tuple[T, asyncio.Future[R]]]:
        live = [entry for entry in self._waiting if not entry[1].done()]
        self._waiting = live[self._limit :]
        return live[: self._limit]

    async def _settle(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await self._handle_batch([item for item, _ in batch])
            if len(results) != len(batch):
                raise RuntimeError(f"{self.name}: {len(results)} results for {len(batch)} items")
        except Exception as error:  # noqa: BLE001 - it is handed to the callers
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
        except BaseException:
            _abandon(batch)
            raise
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)


def _abandon(entries: list[tuple[T, asyncio.Future[R]]]) -> None:
    for _, future in entries:
        future.cancel()
