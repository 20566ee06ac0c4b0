"""What arrives during a batch forms the next one; nothing waits for more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest
import structlog

from triumvir.errors import Draining
from triumvir.runtime.gather import Gatherer


class Batches:
    """A handler that records its batches and answers each when told to."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []
        self.began = asyncio.Semaphore(0)
        self.go = asyncio.Semaphore(0)

    async def handle(self, items: list[int]) -> list[str]:
        self.seen.append(items)
        self.began.release()
        await self.go.acquire()
        return [f"done {item}" for item in items]

    def finish(self, batches: int) -> None:
        for _ in range(batches):
            self.go.release()


async def soon(awaitable: Awaitable[object]) -> None:
    async with asyncio.timeout(5):
        await awaitable


def submit_all(gatherer: Gatherer[int, str], *items: int) -> list[asyncio.Task[str]]:
    return [asyncio.create_task(gatherer.submit(item)) for item in items]


async def test_one_batch_at_a_time_and_the_next_is_all_that_came_meanwhile() -> None:
    batches = Batches()
    gatherer = Gatherer(batches.handle, limit=10)
    first = submit_all(gatherer, 1)
    await soon(batches.began.acquire())
    later = submit_all(gatherer, 2, 3, 4)
    batches.finish(2)
    assert await asyncio.gather(*first, *later) == ["done 1", "done 2", "done 3", "done 4"]
    assert batches.seen == [[1], [2, 3, 4]]


async def test_what_arrives_in_one_turn_of_the_loop_is_one_batch() -> None:
    batches = Batches()
    batches.finish(1)
    await asyncio.gather(*submit_all(Gatherer(batches.handle, limit=10), 1, 2, 3))
    assert batches.seen == [[1, 2, 3]]


async def test_a_batch_is_no_larger_than_the_limit_and_keeps_the_order() -> None:
    batches = Batches()
    batches.finish(3)
    await asyncio.gather(*submit_all(Gatherer(batches.handle, limit=2), 1, 2, 3, 4, 5))
    assert batches.seen == [[1, 2], [3, 4], [5]]


async def test_an_error_reaches_the_callers_of_its_batch_and_nobody_else() -> None:
    async def handle(items: list[int]) -> list[int]:
        if 1 in items:
            raise ConnectionError("lost")
        return items

    gatherer = Gatherer(handle, limit=2)
    answers = await asyncio.gather(*(gatherer.submit(n) for n in (1, 2, 3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [ConnectionError, ConnectionError, int]


async def test_a_handler_that_answers_for_too_few_is_an_error_for_all() -> None:
    async def handle(items: list[int]) -> list[int]:
        return items[1:]

    gatherer = Gatherer(handle, limit=9, name="begins")
    answers = await asyncio.gather(gatherer.submit(1), gatherer.submit(2), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["begins: 1 results for 2 items"] * 2


async def test_an_item_whose_caller_left_before_its_batch_is_left_out() -> None:
    batches = Batches()
    gatherer = Gatherer(batches.handle, limit=10)
    (first,) = submit_all(gatherer, 1)
    await soon(batches.began.acquire())
    leaving, staying = submit_all(gatherer, 2, 3)
    await asyncio.sleep(0)
    leaving.cancel()
    batches.finish(2)
    await asyncio.gather(first, staying)
    assert batches.seen == [[1], [3]]


async def test_a_caller_that_leaves_during_its_batch_harms_nobody() -> None:
    batches = Batches()
    leaving, staying = submit_all(Gatherer(batches.handle, limit=10), 1, 2)
    await soon(batches.began.acquire())
    leaving.cancel()
    batches.finish(1)
    assert await staying == "done 2"
    assert batches.seen == [[1, 2]]


async def test_draining_finishes_what_was_taken_and_refuses_more() -> None:
    batches = Batches()
    gatherer = Gatherer(batches.handle, limit=1)
    taken = submit_all(gatherer, 1, 2)
    await soon(batches.began.acquire())
    drained = asyncio.create_task(gatherer.drain())
    await asyncio.sleep(0)
    with pytest.raises(Draining):
        await gatherer.submit(3)
    assert not drained.done()
    batches.finish(2)
    await soon(drained)
    assert [task.result() for task in taken] == ["done 1", "done 2"]


async def test_draining_an_idle_gatherer_returns_at_once() -> None:
    await soon(Gatherer(Batches().handle, limit=1).drain())


async def test_it_is_stalled_for_as_long_as_its_batch_runs() -> None:
    batches = Batches()
    gatherer = Gatherer(batches.handle, limit=1, clock=lambda: 100.0)
    assert gatherer.stalled_for(130.0) == 0.0
    (task,) = submit_all(gatherer, 1)
    await soon(batches.began.acquire())
    assert gatherer.stalled_for(130.0) == 30.0
    batches.finish(1)
    await task
    assert gatherer.stalled_for(130.0) == 0.0


async def test_callers_are_cancelled_when_the_batch_is() -> None:
    async def cancelled(_: list[int]) -> list[str]:
        raise asyncio.CancelledError

    (task,) = submit_all(Gatherer(cancelled, limit=1), 1)
    await soon(asyncio.wait([task]))
    assert task.cancelled()


async def test_a_batch_does_not_run_in_the_log_context_of_one_of_its_callers() -> None:
    contexts: list[dict[str, object]] = []

    async def handle(items: list[int]) -> list[int]:
        contexts.append(structlog.contextvars.get_contextvars())
        return items

    gatherer: Gatherer[int, int] = Gatherer(handle, limit=1)
    with structlog.contextvars.bound_contextvars(order="shop-a/1"):
        await gatherer.submit(1)
    assert contexts == [{}]
