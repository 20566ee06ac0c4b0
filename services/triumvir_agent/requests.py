"""What the inbox says of requests: the rows they ask for, the answers, and the columns of its statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from triumvir.agent.calling import NEVER_BEGUN, OUTCOME_UNKNOWN, Failure, Outcome, Success
from triumvir.contracts.messages import RefusalReason, StepCompensate, StepRequest
from triumvir.contracts.names import Direction
from triumvir.store.statements import Row

Key = tuple[int, int, Direction]


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


def newest(requests: Sequence[StepRequest]) -> dict[Key, StepRequest]:
    """One request for each row: that of the newest attempt, the first to arrive of its repetitions."""
    chosen: dict[Key, StepRequest] = {}
    for request in requests:
        known = chosen.setdefault(key_of(request), request)
        if request.fence > known.fence:
            chosen[key_of(request)] = request
    return chosen


def rounds(requests: Sequence[StepRequest]) -> list[list[StepRequest]]:
    """All at once; but a step's forward request before its undo, since the undo writes the forward row as well
    and no statement may write a row twice.
    """
    undos = [request for request in requests if direction_of(request) == "undo"]
    forward = [request for request in requests if direction_of(request) == "do"]
    steps = {key_of(request)[:2] for request in forward}
    if not any(key_of(request)[:2] in steps for request in undos):
        return [list(requests)]
    return [forward, undos]


def answer(request: StepRequest, row: Row) -> Begun:
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


def told(request: StepRequest, row: Row) -> Known | Refused:
    """What to say of a request that only asks. Nothing is called for it, so an unknown outcome stays so for good."""
    state, calls = row["state"], row["calls"]
    if state == "succeeded" and row["generation"] >= request.generation:
        return Known(Success(row["reply"]), calls)
    if row["fence"] > request.fence:
        return Refused("stale")
    if state == "failed":
        return Known(Failure(**orjson.loads(row["reply"])), calls)
    return Known(NEVER_BEGUN if state == "fenced" else OUTCOME_UNKNOWN, calls)


def taken(row: Row) -> Taken:
    """A row that was taken."""
    return Taken(row["calls"], row["tries"], row["doubt"], row["seconds_left"])


def columns(requests: Sequence[StepRequest]) -> dict[str, list[Any]]:
    """Requests in the order of their rows, column by column."""
    ordered = sorted(requests, key=key_of)
    return {
        "nos": [request.order_no for request in ordered],
        "step_nos": [request.step_no for request in ordered],
        "directions": [direction_of(request) for request in ordered],
        "fences": [request.fence for request in ordered],
        "generations": [request.generation for request in ordered],
        "complete_by": [request.complete_by for request in ordered],
        "allowed": [request.attempts_allowed for request in ordered],
    }


def row_key(row: Row) -> Key:
    """Whose row it is."""
    return row["no"], row["step_no"], row["direction"]


def state_of(outcome: Outcome) -> Literal["succeeded", "failed"]:
    """The state of a row with this outcome."""
    return "succeeded" if isinstance(outcome, Success) else "failed"


def written(outcome: Outcome) -> str:
    """An outcome as its row keeps it: a result as it is, a failure as JSON."""
    if isinstance(outcome, Success):
        return outcome.result
    return orjson.dumps({"kind": outcome.kind, "effect": outcome.effect, "error": outcome.error}).decode()
