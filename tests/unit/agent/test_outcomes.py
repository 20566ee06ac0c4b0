"""What becomes of a call: the table of errors in docs/authoring.md, line by line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from triumvir import Agent, Context, Permanent, Transient
from triumvir.agent.calling import CallPolicy, Failure, Outcome, Success, call
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import StepExecute

POLICY = CallPolicy(backoff=timedelta(milliseconds=1), most_bytes=1000)


class Parcel(BaseModel):
    pence: int


def request(payload: str = '{"pence": 5}', attempts_allowed: int = 1) -> StepExecute:
    return StepExecute(
        order_no=1, client="shop", order_id="1", workflow="w", version=1, step="pay", step_no=1,
        operation="charge", payload=JsonText(text=payload), complete_by=datetime.now(UTC), time_left_ms=0,
        attempts_allowed=attempts_allowed, idempotency_key="shop/1/pay/do/0", lock=UUID(int=1), fence=7, attempt=1,
    )  # fmt: skip


class Till:
    """An agent with one operation; ``counted`` are the calls after the first, as the inbox counts them."""

    def __init__(self, function: Callable[..., Any], policy: CallPolicy = POLICY) -> None:
        agent = Agent("till")
        agent.operation("charge")(function)
        agent.check()
        found = agent.find("charge", "do")
        assert found is not None
        self._operation = found
        self._policy = policy
        self.counted = 0
        self.fenced = False

    async def call(self, asked: StepExecute | None = None, seconds_left: float = 5) -> Outcome:
        asked = asked or request()
        return await call(self._operation, asked, Context(asked, seconds_left), self._count, self._policy)

    async def _count(self) -> int | None:
        self.counted += 1
        return None if self.fenced else self.counted + 1


def raising(error: BaseException) -> Callable[..., Any]:
    async def charge(ctx: Context, parcel: Parcel) -> None:
        raise error

    return charge


@pytest.mark.parametrize(
    ("error", "kind", "effect"),
    [
        (Transient("busy"), "transient", "unknown"),
        (Transient("busy", effect="none"), "transient", "none"),
        (Permanent("no"), "permanent", "none"),
        (Permanent("no", effect="unknown"), "permanent", "unknown"),
        (ValueError("oops"), "transient", "unknown"),
        (TimeoutError(), "transient", "unknown"),
        (SystemExit(1), "transient", "unknown"),
    ],
    ids=repr,
)
async def test_an_error_says_whether_to_call_again_and_what_is_in_doubt(
    error: BaseException, kind: str, effect: str
) -> None:
    outcome = await Till(raising(error)).call()
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.effect) == (kind, effect)


async def test_a_transient_error_is_called_again_with_the_same_key_until_the_allowance_is_used() -> None:
    keys: list[str] = []

    async def charge(ctx: Context, parcel: Parcel) -> str:
        keys.append(ctx.idempotency_key)
        raise Transient("busy", retry_after=timedelta(milliseconds=1))

    till = Till(charge)
    assert isinstance(await till.call(request(attempts_allowed=3)), Failure)
    assert keys == ["shop/1/pay/do/0"] * 3
    assert till.counted == 2  # the first was counted when the request was begun


async def test_a_permanent_error_is_not_called_again() -> None:
    till = Till(raising(Permanent("no")))
    await till.call(request(attempts_allowed=3))
    assert till.counted == 0


async def test_one_call_in_doubt_leaves_the_request_in_doubt() -> None:
    errors = [Transient("broken pipe"), Permanent("refused")]

    async def charge(ctx: Context, parcel: Parcel) -> None:
        raise errors[ctx.call - 1]

    asked = request(attempts_allowed=2)
    assert await Till(charge).call(asked) == Failure("permanent", "unknown", "refused")


async def test_no_call_is_made_once_the_attempt_was_fenced_off() -> None:
    till = Till(raising(Transient("busy", retry_after=timedelta(milliseconds=1))))
    till.fenced = True
    outcome = await till.call(request(attempts_allowed=5))
    assert till.counted == 1
    assert outcome == Failure("transient", "unknown", "busy"), "what went wrong, not that it is over"


async def test_a_wait_longer_than_the_time_left_is_not_begun() -> None:
    till = Till(raising(Transient("busy", retry_after=timedelta(hours=1))))
    assert isinstance(await till.call(request(attempts_allowed=5)), Failure)
    assert till.counted == 0


async def test_a_call_ends_with_the_time_left() -> None:
    async def charge(ctx: Context, parcel: Parcel) -> None:
        await asyncio.Event().wait()

    outcome = await Till(charge).call(seconds_left=0.05)
    assert outcome == Failure("transient", "unknown", "no answer within the time left")


async def test_a_payload_that_does_not_fit_is_refused_without_a_call() -> None:
    outcome = await Till(raising(AssertionError())).call(request('{"pence": "many"}'))
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.effect) == ("permanent", "none")
    assert "pence" in outcome.error


@pytest.mark.parametrize("returned", ["x" * 2000, "NUL \x00", 2**70])
async def test_a_result_that_cannot_be_kept_is_a_failure_in_doubt(returned: object) -> None:
    async def charge(ctx: Context, parcel: Parcel) -> Any:
        return returned

    outcome = await Till(charge).call()
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.effect) == ("permanent", "unknown")


async def test_a_plain_function_returns_its_result_as_json() -> None:
    def charge(ctx: Context, parcel: Parcel) -> dict[str, int]:
        return {"charged": parcel.pence, "fence": ctx.fence}

    assert await Till(charge).call() == Success('{"charged":5,"fence":7}')


async def test_a_number_that_json_has_not_is_kept_as_null() -> None:
    def charge(ctx: Context, parcel: Parcel) -> float:
        return float("inf")

    assert await Till(charge).call() == Success("null")
