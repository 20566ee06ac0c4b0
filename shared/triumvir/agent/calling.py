"""Running an operation for one request: typed arguments, bounded calls, an outcome that says what is known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Literal

import stamina
from pydantic import ValidationError

from triumvir.agent.authoring import Operation
from triumvir.agent.context import Context
from triumvir.agent.running import Ended, Runner
from triumvir.contracts.json_text import parse_value
from triumvir.contracts.messages import StepCompensate, StepRequest
from triumvir.errors import ContractError, OperationError, Permanent, Transient
from triumvir.runtime.crash import crash_point
from triumvir.telemetry import metrics

_LONGEST_WAIT: Final = timedelta(seconds=30)

CountCall = Callable[[], Awaitable[int | None]]
"""Writes down that one more call is about to be made; None if the attempt was fenced off or is out of time."""


@dataclass(frozen=True, slots=True)
class Success:
    """What the operation returned, as JSON text. ``recorded``: it stands in the inbox already."""

    result: str
    recorded: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """How it failed, and what is known of its effect over all calls of the request."""

    kind: Literal["transient", "permanent"]
    effect: Literal["none", "unknown"]
    error: str


Outcome = Success | Failure
OUTCOME_UNKNOWN: Final = Failure("permanent", "unknown", "it was called, and no agent knows what came of it")
NEVER_BEGUN: Final = Failure("permanent", "none", "no agent began it")
"""What is told of a request that only asks, where the inbox holds no outcome."""


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """Bounds of the calls made for one request. ``most_bytes``: the largest result, ``most_depth`` its nesting;
    ``spent``: calls that other instances made of the allowance; ``doubt``: one of them was not heard out;
    ``runner``: where operations run.
    """

    backoff: timedelta
    most_bytes: int
    most_depth: int = 64
    spent: int = 0
    doubt: bool = False
    runner: Runner = field(default_factory=Runner, compare=False)


class Fenced(OperationError):
    """No further call may be made for this request; it says what became of the call before."""

    default_effect = "none"


async def call(
    operation: Operation[Any], request: StepRequest, ctx: Context, count_call: CountCall, policy: CallPolicy
) -> Outcome:
    """Calls the operation until it succeeds, fails for good, or allowance or time run out.

    Its first call was counted when the request was begun. ``Retry-After`` is honoured.
    """
    doubt = policy.doubt
    allowed = request.attempts_allowed - policy.spent
    if allowed < 1:
        return Failure("transient", _effect(doubt), "the calls allowed for this request are used up")
    try:
        arguments = _arguments(operation, request)
    except Exception as error:  # noqa: BLE001 - a validator may raise anything, and would again
        problem = f"the payload does not fit {operation.full_name}: {_short(error)}"
        return Failure("permanent", _effect(doubt), problem)

    failed = ""

    async def once() -> Success:
        nonlocal doubt, failed
        if ctx.call > 0 and await count_call() is None:
            raise Fenced(failed)
        ctx.call += 1
        try:
            return await _call_and_commit(operation, ctx, arguments, policy)
        except OperationError as error:
            doubt, failed = doubt or error.effect == "unknown", _text(error)
            raise

    try:
        return await _until_over(once, allowed, ctx, policy)
    except OperationError as error:
        kind: Literal["transient", "permanent"] = "permanent" if isinstance(error, Permanent) else "transient"
        return Failure(kind, _effect(doubt), _text(error))


def _effect(doubt: bool) -> Literal["none", "unknown"]:
    return "unknown" if doubt else "none"


async def _until_over(
    once: Callable[[], Awaitable[Success]], allowed: int, ctx: Context, policy: CallPolicy
) -> Success:
    """The first call that succeeds, or the last failure. A call that succeeds at once, as nearly all do, is spared
    the retry loop, which costs more than everything else around a call; the loop's first turn is what failed.
    """
    try:
        return await once()
    except OperationError as error:
        failed = error
    if not ctx.time_left:
        raise failed
    async for attempt in stamina.retry_context(
        on=lambda error: _wait_before_next(error, ctx.time_left),
        attempts=allowed,
        timeout=None,  # ended by the time left, on the clock of the context
        wait_initial=policy.backoff,
        wait_max=min(_LONGEST_WAIT, ctx.time_left),
    ):
        with attempt:
            if attempt.num == 1:
                raise failed
            return await once()
    raise AssertionError("stamina ended without a result or an error")


def _arguments(operation: Operation[Any], request: StepRequest) -> list[Any]:
    arguments = [operation.argument.validate_json(request.payload.text)]
    if operation.earlier_result is not None and isinstance(request, StepCompensate):
        known = request.result
        arguments.append(None if known is None else operation.earlier_result.validate_json(known.text))
    return arguments


async def _call_and_commit(
    operation: Operation[Any], ctx: Context, arguments: list[Any], policy: CallPolicy
) -> Success:
    try:
        result = _result(operation, await _call_once(operation, ctx, arguments, policy), policy)
        committed = await ctx.commit(result)
    except BaseException:
        ctx.abandon()
        raise
    if committed is False:
        raise Fenced("the attempt is over; its transaction was rolled back")
    return Success(result, recorded=committed is True)


async def _call_once(
    operation: Operation[Any], ctx: Context, arguments: list[Any], policy: CallPolicy
) -> Any:
    """One call, no longer than the time left. Whatever it raises becomes an OperationError."""
    crash_point("agent.call.before")
    began = time.monotonic()
    try:
        ended = await policy.runner.run(
            operation.function, operation.is_async, ctx.time_left, ctx, *arguments
        )
    finally:
        metrics.OPERATION_SECONDS.record(time.monotonic() - began, operation.full_name)
    if ended.raised is not None:
        raise _told(ended) from ended.raised
    crash_point("agent.call.after")
    return ended.returned


def _told(ended: Ended) -> OperationError:
    """What an operation raised, as an error that says what is known. An operation that raises SystemExit, or a
    cancellation of its own making, has failed like any other.
    """
    error = ended.raised
    if ended.never_began:
        return Transient("no thread was free for it within its time", effect="none")
    if isinstance(error, OperationError):
        return error
    if isinstance(error, TimeoutError) or (ended.cut_off and isinstance(error, asyncio.CancelledError)):
        return Transient(str(error) or "no answer within the time left")
    return Transient(f"{type(error).__name__}: {error}".removesuffix(": "))


def _result(operation: Operation[Any], returned: Any, policy: CallPolicy) -> str:
    """The result as it is kept: under the rules of every text that crosses the wire."""
    where = f"the result of {operation.full_name}"
    try:
        text = operation.result.dump_json(operation.result.validate_python(returned))
        if len(text) <= policy.most_bytes:
            return parse_value(text.decode(), max_depth=policy.most_depth).text
    except (ValueError, TypeError, RecursionError, ContractError) as error:
        raise Permanent(f"{where} cannot be kept: {_short(error)}", effect="unknown") from error
    problem = f"{where} has {len(text)} bytes, {policy.most_bytes} are allowed; return a reference to it"
    raise Permanent(problem, effect="unknown")


def _wait_before_next(error: Exception, time_left: timedelta) -> bool | timedelta:
    if not isinstance(error, Transient) or not time_left:
        return False
    if error.retry_after is None:
        return True
    return error.retry_after if error.retry_after < time_left else False


def _short(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'payload'}: {first['msg']}"
    return _text(error) if isinstance(error, ContractError) else f"{type(error).__name__}: {_text(error)}"


def _text(error: BaseException) -> str:
    """What happened, storable and of a bounded length."""
    text = str(error) or type(error).__name__
    return text.replace("\x00", "\\0").encode("utf-8", "backslashreplace").decode()[:2000]
