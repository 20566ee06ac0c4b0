"""The agent's inbox: rows taken before the first call, finished after the last; one commit for all that is there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal
from uuid import UUID

import orjson

from triumvir.agent.calling import Failure, Outcome, Success
from triumvir.contracts.messages import RefusalReason, StepCompensate, StepRequest
from triumvir.contracts.names import Direction
from triumvir.runtime.crash import crash_point
from triumvir.store.faults import Fault, fault
from triumvir.store.session import Session
from triumvir.store.statements import Row, statement
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
Key = tuple[int, int, Direction]
log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Taken:
    """The row is this process' own: call the operation. ``tries``: calls under this fence, the coming one included.
    ``doubt``: a call of an instance that died under this fence was not heard out, so no failure is without effect.
    """

    calls: int
    tries: int
    doubt: bool
    seconds_left: float


@dataclass(frozen=True, slots=True)
class Known:
    """The inbox has the answer already."""

    outcome: Outcome
    calls: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing may be called."""

    reason: RefusalReason


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Somebody is calling; whoever that is will answer."""


Begun = Taken | Known | Refused | UnderWay


@dataclass(frozen=True, slots=True)
class Finish:
    """The outcome of a request, to be written under its fence."""

    key: Key
    fence: int
    outcome: Outcome


def direction_of(request: StepRequest) -> Direction:
    """Whether a request runs a step or undoes it."""
    return "undo" if isinstance(request, StepCompensate) else "do"


def key_of(request: StepRequest) -> Key:
    """The inbox row of a request."""
    return request.order_no, request.step_no, direction_of(request)


class Inbox:
    """The rows of this process' requests."""

    def __init__(self, begins: Session, finishes: Session, counts: Session, owner: UUID) -> None:
        self._begins = begins
        self._finishes = finishes
        self._counts = counts
        self._owner = owner
        self._calling: set[tuple[Key, int]] = set()

    async def begin(self, requests: Sequence[StepRequest]) -> list[Begun]:
        """Takes the rows of these requests, or says why not. One row is asked for once, by the newest attempt; any
        other request for it in the same batch is under way.
        """
        newest = _newest(requests)
        answers: dict[Key, Begun] = {}
        for part in _rounds(list(newest.values())):
            answers |= await self._begin(part)
        return [
            answers[key_of(request)] if newest[key_of(request)] is request else UnderWay()
            for request in requests
        ]

    async def _begin(self, requests: Sequence[StepRequest]) -> dict[Key, Begun]:
        """Of distinct rows."""
        columns, fences = _columns(requests), {key_of(request): request.fence for request in requests}
        async with self._begins.connection() as connection:  # one statement is its own transaction
            crash_point("agent.begin.before_commit")
            rows = await statement("begin_requests").rows(
                connection, owner=self._owner, idle=self._idle(requests), **columns
            )
            crash_point("agent.begin.after_commit")
            taken = {_row_key(row): _taken(row) for row in rows}
            left = [request for request in requests if key_of(request) not in taken]
            answers: dict[Key, Begun] = {**taken, **await self._look_up(connection, left)}
        self._calling.update((key, fences[key]) for key in taken)
        return answers

    def _idle(self, requests: Iterable[StepRequest]) -> list[bool]:
        """Whether this process is not calling for them: a row it took in a commit whose answer was lost is its
        own, and nobody else will call.
        """
        ordered = sorted(requests, key=key_of)
        return [(key_of(request), request.fence) not in self._calling for request in ordered]

    def leave(self, request: StepRequest) -> None:
        """This process has stopped calling for a request it took."""
        self._calling.discard((key_of(request), request.fence))

    async def _look_up(self, connection: Any, requests: Sequence[StepRequest]) -> dict[Key, Begun]:
        if not requests:
            return {}
        columns = _columns(requests)
        wanted = {name: columns[name] for name in ("nos", "step_nos", "directions", "complete_by")}
        rows = await statement("read_inbox").rows(connection, **wanted)
        by_key = {_row_key(row): row for row in rows}
        return {key_of(request): _answer(request, by_key[key_of(request)]) for request in requests}

    async def finish(self, finishes: Sequence[Finish]) -> list[bool]:
        """Writes outcomes; for each, whether the row was still this attempt's. Repeated until it is committed."""
        pause = FIRST_PAUSE
        while True:
            try:
                return await self._finish(finishes)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - an outcome is never dropped: the database comes back
                if fault(error) is Fault.DATA:
                    return await self._finish_storable(finishes, error)
                log.warning(
                    events.INBOX_UNREACHABLE, finishes=len(finishes), error=str(error) or type(error).__name__
                )
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE, pause * 2)

    async def _finish_storable(self, finishes: Sequence[Finish], error: Exception) -> list[bool]:
        """One outcome that Postgres refuses must not keep the others; its own is told as a failure."""
        if len(finishes) > 1:
            return [(await self.finish([finish]))[0] for finish in finishes]
        problem = Failure("permanent", "unknown", f"the outcome cannot be stored: {type(error).__name__}")
        return await self.finish([replace(finishes[0], outcome=problem)])

    async def _finish(self, finishes: Sequence[Finish]) -> list[bool]:
        ordered = sorted(finishes, key=lambda finish: finish.key)
        async with self._finishes.connection() as connection:  # one statement is its own transaction
            crash_point("agent.finish.before_commit")
            rows = await statement("finish_requests").rows(
                connection,
                owner=self._owner,
                nos=[finish.key[0] for finish in ordered],
                step_nos=[finish.key[1] for finish in ordered],
                directions=[finish.key[2] for finish in ordered],
                fences=[finish.fence for finish in ordered],
                states=[_state(finish.outcome) for finish in ordered],
                replies=[_written(finish.outcome) for finish in ordered],
            )
        crash_point("agent.finish.after_commit")
        landed = {(*_row_key(row), row["fence"]) for row in rows}
        return [(*finish.key, finish.fence) in landed for finish in finishes]

    async def refuse_unknown(self, request: StepRequest) -> Begun:
        """Closes the attempt to an operation that is not offered here, unless somebody has begun it elsewhere."""
        no, step_no, direction = key_of(request)
        async with self._counts.connection() as connection:
            closed = await statement("refuse_unknown").value(
                connection, no=no, step_no=step_no, direction=direction, fence=request.fence
            )
            if closed is not None:
                return Refused("unknown_operation")
            known = await self._look_up(connection, [request])
        return known[key_of(request)]

    async def was_cut_off(self, request: StepRequest) -> bool:
        """Whether earlier attempts of this step called, more than once, and the last one's process ended with it."""
        no, step_no, direction = key_of(request)
        async with self._counts.connection() as connection:
            cut_off: bool = await statement("was_cut_off").value(
                connection, no=no, step_no=step_no, direction=direction, fence=request.fence
            )
        return cut_off

    async def count_call(self, request: StepRequest) -> int | None:
        """Writes down one more call. None if the attempt was fenced off, or is out of time."""
        no, step_no, direction = key_of(request)
        async with self._counts.connection() as connection:
            calls: int | None = await statement("count_call").value(
                connection, no=no, step_no=step_no, direction=direction, fence=request.fence
            )
        return calls

    async def is_recorded(self, request: StepRequest) -> bool:
        """Whether a success under this fence stands in the inbox, after a commit of unknown outcome. Waits for
        the row's lock, so that a commit still under way is seen.
        """
        no, step_no, direction = key_of(request)
        async with self._counts.transaction() as connection:
            row = await statement("lock_inbox").row(connection, no=no, step_no=step_no, direction=direction)
        return row is not None and row["state"] == "succeeded" and row["fence"] == request.fence


def _newest(requests: Sequence[StepRequest]) -> dict[Key, StepRequest]:
    """One request for each row: that of the newest attempt, the first to arrive of its repetitions."""
    newest: dict[Key, StepRequest] = {}
    for request in requests:
        known = newest.setdefault(key_of(request), request)
        if request.fence > known.fence:
            newest[key_of(request)] = request
    return newest


def _rounds(requests: Sequence[StepRequest]) -> list[list[StepRequest]]:
    """All at once; but a step's forward request before its undo, since the undo writes the forward row as well
    and no statement may write a row twice.
    """
    undos = [request for request in requests if direction_of(request) == "undo"]
    forward = [request for request in requests if direction_of(request) == "do"]
    steps = {key_of(request)[:2] for request in forward}
    if not any(key_of(request)[:2] in steps for request in undos):
        return [list(requests)]
    return [forward, undos]


def _answer(request: StepRequest, row: Row) -> Begun:
    """What to say of a request whose row was not taken."""
    state = row["state"]
    generation = request.generation
    if state == "succeeded" and row["generation"] >= generation:
        return Known(Success(row["reply"]), row["calls"])
    if state == "failed" and row["fence"] == request.fence:
        return Known(Failure(**orjson.loads(row["reply"])), row["calls"])
    if state is not None and (request.fence <= row["refuse_upto"] or row["fence"] > request.fence):
        return Refused("stale")
    if row["out_of_time"]:
        return Refused("no_time")
    return UnderWay()


def _taken(row: Row) -> Taken:
    return Taken(row["calls"], row["tries"], row["doubt"], row["seconds_left"])


def _columns(requests: Sequence[StepRequest]) -> dict[str, list[Any]]:
    ordered = sorted(requests, key=key_of)
    return {
        "nos": [request.order_no for request in ordered],
        "step_nos": [request.step_no for request in ordered],
        "directions": [direction_of(request) for request in ordered],
        "fences": [request.fence for request in ordered],
        "generations": [request.generation for request in ordered],
        "complete_by": [request.complete_by for request in ordered],
    }


def _row_key(row: Row) -> Key:
    return row["no"], row["step_no"], row["direction"]


def _state(outcome: Outcome) -> Literal["succeeded", "failed"]:
    return "succeeded" if isinstance(outcome, Success) else "failed"


def _written(outcome: Outcome) -> str:
    if isinstance(outcome, Success):
        return outcome.result
    return orjson.dumps({"kind": outcome.kind, "effect": outcome.effect, "error": outcome.error}).decode()
