"""An operation has its time and no more; what goes on beyond it is counted until it ends."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, model_validator

from tests.unit.agent.test_outcomes import POLICY, Parcel, Till, raising, request
from tests.waiting import eventually
from triumvir import Context
from triumvir.agent.calling import Failure
from triumvir.agent.running import Ended, NeverBegan, Runner


class Odd(BaseModel):
    @model_validator(mode="before")
    @classmethod
    def _country(cls, data: dict[str, Any]) -> dict[str, Any]:
        return {"country": data["country"]}


SHORT = timedelta(milliseconds=50)
LONG = timedelta(seconds=30)


async def test_a_function_that_hangs_is_left_behind_until_it_ends() -> None:
    gate, freed = threading.Event(), asyncio.Event()
    runner = Runner(1, freed.set)
    ended = await runner.run(gate.wait, False, SHORT)
    assert (ended.cut_off, ended.never_began, runner.left_behind) == (True, False, 1)
    gate.set()
    await asyncio.wait_for(freed.wait(), 5)
    assert runner.left_behind == 0
    assert await runner.run(lambda: 7, False, LONG) == Ended(7)


async def test_a_function_that_finds_no_thread_in_its_time_is_never_called() -> None:
    gate, called = threading.Event(), threading.Event()
    runner = Runner(1)
    await runner.run(gate.wait, False, SHORT)
    ended = await runner.run(called.set, False, SHORT)
    assert (ended.never_began, type(ended.raised)) == (True, NeverBegan)
    gate.set()
    await runner.run(lambda: None, False, LONG)
    assert not called.is_set()
    assert runner.left_behind == 0


async def test_a_coroutine_that_refuses_to_be_cancelled_is_left_behind_until_it_ends() -> None:
    gate = asyncio.Event()

    async def stubborn() -> None:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue

    runner = Runner()
    ended = await runner.run(stubborn, True, SHORT)
    assert (ended.cut_off, runner.left_behind) == (True, 1)
    assert isinstance(ended.raised, TimeoutError)
    gate.set()
    await eventually(lambda: runner.left_behind == 0)


async def test_a_coroutine_may_put_things_right_when_its_time_is_over() -> None:
    async def tidy() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "tidied"

    runner = Runner()
    assert await runner.run(tidy, True, SHORT) == Ended("tidied", None, True)
    assert runner.left_behind == 0


async def test_a_coroutine_without_any_time_left_is_never_called() -> None:
    called: list[str] = []

    async def operation() -> None:
        called.append("called")
        await asyncio.Event().wait()

    ended = await Runner().run(operation, True, timedelta(0))
    assert ended.cut_off
    assert ended.never_began == (called == [])


async def test_whoever_is_cancelled_from_outside_cancels_the_operation_too() -> None:
    ended = asyncio.Event()

    async def operation() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.create_task(Runner().run(operation, True, LONG))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(ended.wait(), 5)


async def test_an_order_that_found_no_thread_has_no_effect_in_doubt() -> None:
    gate = threading.Event()

    def charge(ctx: Context, parcel: Parcel) -> None:
        gate.wait()

    runner = Runner(1)
    await runner.run(gate.wait, False, SHORT)
    outcome = await Till(charge, replace(POLICY, runner=runner)).call(seconds_left=0.05)
    assert outcome == Failure("transient", "none", "no thread was free for it within its time")
    gate.set()


@pytest.mark.parametrize("error", [GeneratorExit(), KeyboardInterrupt(), SystemExit(1)], ids=repr)
async def test_an_error_that_would_end_a_process_or_its_task_ends_the_call_alone(
    error: BaseException,
) -> None:
    outcome = await Till(raising(error)).call()
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.effect) == ("transient", "unknown")
    assert outcome.error.startswith(type(error).__name__)


async def test_a_validator_with_a_fault_of_its_own_is_told_and_calls_nothing() -> None:
    called: list[Odd] = []

    async def charge(ctx: Context, parcel: Odd) -> None:
        called.append(parcel)

    outcome = await Till(charge).call(request('{"pence": 5}'))
    assert outcome == Failure(
        "permanent", "none", "the payload does not fit till/charge: KeyError: 'country'"
    )
    assert not called
