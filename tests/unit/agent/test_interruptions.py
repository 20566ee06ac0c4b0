"""An operation that ends in an odd way fails alone; a process that is stopped is not held up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.agent.test_outcomes import Parcel, Till
from triumvir import Context
from triumvir.agent.calling import Failure


async def test_a_plain_function_that_raises_stop_iteration_fails_at_once() -> None:
    def charge(ctx: Context, parcel: Parcel) -> Any:
        return next(iter([]))

    outcome = await Till(charge).call(seconds_left=60)
    assert outcome == Failure("transient", "unknown", "RuntimeError: StopIteration")


async def test_a_cancellation_of_the_operations_own_making_is_a_failure() -> None:
    async def charge(ctx: Context, parcel: Parcel) -> None:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        inner.cancel()
        await inner

    outcome = await Till(charge).call()
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.effect, outcome.error) == ("transient", "unknown", "CancelledError")


async def test_a_request_that_is_cancelled_from_outside_stays_cancelled() -> None:
    began = asyncio.Event()

    async def charge(ctx: Context, parcel: Parcel) -> None:
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(Till(charge).call())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_text_is_storable_and_bounded() -> None:
    async def charge(ctx: Context, parcel: Parcel) -> None:
        raise ValueError("a\x00b\ud800" + "x" * 5000)

    outcome = await Till(charge).call()
    assert isinstance(outcome, Failure)
    assert outcome.error.startswith("ValueError: a\\0b\\ud800x")
    assert len(outcome.error) == 2000
