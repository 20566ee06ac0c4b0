"""Calls of an operation and its undo as agents make them, whole, cut off in the middle, or given no time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from triumvir.agent import Agent, Context
from triumvir.agent.authoring import Operation
from triumvir.agent.calling import CallPolicy, Outcome, call
from triumvir.agent.running import Runner
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import StepCompensate, StepExecute, StepRequest
from triumvir.contracts.names import Direction, idempotency_key, order_key

CLIENT: Final = "trial"
STEP: Final = "tried"
_MOST_BYTES: Final = 262_144
_BACKOFF: Final = timedelta(milliseconds=20)


class Killed(BaseException):
    """The process died at this point: nobody hears what came of the call."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is tried: one operation with its undo. ``calls``: so many for one request at most."""

    agent: Agent
    operation: str
    undo: str | None
    payload: Any
    seconds: float
    calls: int
    count: Callable[[str], Awaitable[int]]
    order_ids: Iterator[str]

    def found(self, direction: Direction) -> Operation[Any]:
        name = self.operation if direction == "do" else self.undo or ""
        found = self.agent.find(name, direction)
        if found is None:
            raise LookupError(f"agent {self.agent.name} has no {name!r}")
        return found

    @property
    def may_be_cut(self) -> bool:
        """Whether it can be killed in the middle: plain functions run in threads, which nobody can stop."""
        return self.found("do").is_async and (self.undo is None or self.found("undo").is_async)


@dataclass(slots=True)
class Tried:
    """A subject and an order of its own. Fences rise by themselves, as attempts follow one another."""

    subject: Subject
    order_id: str = field(init=False)
    _runner: Runner = field(init=False)
    _fewer: asyncio.Event = field(default_factory=asyncio.Event)
    _fence: int = 0

    def __post_init__(self) -> None:
        self.order_id = next(self.subject.order_ids)
        self._runner = Runner(changed=self._fewer.set)

    @property
    def order_key(self) -> str:
        return order_key(CLIENT, self.order_id)

    async def effects(self) -> int:
        """The net effects of the order, as its author counts them."""
        return await self.subject.count(self.order_key)

    async def do(self, *, fence: int | None = None, seconds: float | None = None) -> Outcome:
        """A request for the operation, called again while that may help; under this fence, or a new one."""
        return await self._called(self.subject.found("do"), self._request("do", 0, None, fence), seconds)

    async def take_back(self, result: str | None = None, *, generation: int = 0) -> Outcome:
        """A request for the undo. ``result``: what the operation returned, as JSON text, if that is known."""
        known = None if result is None else JsonText(text=result)
        return await self._called(self.subject.found("undo"), self._request("undo", generation, known), None)

    async def killed(self, direction: Direction, at: int) -> bool:
        """One call whose process dies when it waits for the ``at``-th time. False: it was through before."""
        operation, died = self.subject.found(direction), asyncio.Event()
        cut = replace(operation, function=_cut(operation.function, at, died))
        once = self._request(direction, 0, None).model_copy(update={"attempts_allowed": 1})
        await self._called(cut, once, None)
        return died.is_set()

    async def has_ended(self) -> bool:
        """Whether nothing of it goes on any more; waits for that as long as a call is given."""
        if self._runner.left_behind:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._fewer.wait(), self.subject.seconds)
        return not self._runner.left_behind

    async def _called(
        self, operation: Operation[Any], request: StepRequest, seconds: float | None
    ) -> Outcome:
        ctx = Context(request, self.subject.seconds if seconds is None else seconds)

        async def count_call() -> int:
            return ctx.call + 1

        policy = CallPolicy(_BACKOFF, _MOST_BYTES, runner=self._runner)
        return await call(operation, request, ctx, count_call, policy)

    def _request(
        self, direction: Direction, generation: int, result: JsonText | None, fence: int | None = None
    ) -> StepRequest:
        self._fence += 1
        head: dict[str, Any] = {
            "order_no": 1,
            "client": CLIENT,
            "order_id": self.order_id,
            "workflow": "trial",
            "version": 1,
            "step": STEP,
            "step_no": 1,
            "operation": self.subject.found(direction).name,
            "payload": JsonText.of(self.subject.payload),
            "complete_by": datetime.now(UTC) + timedelta(seconds=self.subject.seconds),
            "time_left_ms": int(self.subject.seconds * 1000),
            "attempts_allowed": self.subject.calls,
            "idempotency_key": idempotency_key(self.order_key, STEP, direction, generation),
            "generation": generation,
            "lock": uuid4(),
            "fence": self._fence if fence is None else fence,
            "attempt": self._fence,
        }
        if direction == "do":
            return StepExecute(**head)
        return StepCompensate(**head, effect="certain" if result else "unknown", result=result)


def _cut(function: Callable[..., Any], at: int, died: asyncio.Event) -> Callable[..., Any]:
    async def cut(*arguments: Any) -> Any:
        return await _Cut(function(*arguments), at, died)

    return cut


class _Cut:
    """A coroutine that is cancelled when it waits for the ``at``-th time: what other calls of this process share, such
    as connections, is put in order as after a deadline; the operation is not heard again, as after a kill.
    """

    def __init__(self, work: Coroutine[Any, Any, Any], at: int, died: asyncio.Event) -> None:
        self._work = work
        self._at = at
        self._died = died

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = _sender(self._work, None)
        wait = 0
        while True:
            try:
                waited_for = step()
            except BaseException as ended:
                if self._died.is_set():
                    raise Killed from None
                if isinstance(ended, StopIteration):
                    return ended.value
                raise
            wait += 1
            if wait == self._at:
                self._died.set()
                if not isinstance(waited_for, asyncio.Future):
                    step = _thrower(self._work, asyncio.CancelledError())
                    continue
                waited_for.cancel()
            try:
                sent = yield waited_for
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is the operation's
                step = _thrower(self._work, error)
            else:
                step = _sender(self._work, sent)


def _thrower(work: Coroutine[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: work.throw(error)


def _sender(work: Coroutine[Any, Any, Any], sent: Any) -> Callable[[], Any]:
    return lambda: work.send(sent)
