"""What agents answer, as it crosses the wire."""

from __future__ import annotations

from typing import Any

from triumvir.agent.calling import Outcome, Success
from triumvir.contracts.codec import decode, encode
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import (
    AgentMessage,
    RefusalReason,
    StepCompensate,
    StepFailed,
    StepProgressed,
    StepReply,
    StepRequest,
    StepSucceeded,
)
from triumvir.contracts.names import Direction
from triumvir.testing.inbox import Attempt


def direction_of(request: StepRequest) -> Direction:
    """Whether a request runs a step or undoes it."""
    return "undo" if isinstance(request, StepCompensate) else "do"


def attempt_of(request: StepRequest) -> Attempt:
    """What the inbox looks at of a request."""
    key = (request.order_no, request.step_no, direction_of(request))
    return Attempt(key, request.fence, request.generation, request.complete_by, request.attempts_allowed)


def reply(request: StepRequest, outcome: Outcome, calls: int) -> StepReply:
    """What became of a request."""
    common = {**_common(request), "calls": calls}
    if isinstance(outcome, Success):
        return _sent(StepSucceeded(**common, result=JsonText(text=outcome.result)))
    return _sent(StepFailed(**common, kind=outcome.kind, effect=outcome.effect, error=outcome.error))


def refusal(request: StepRequest, reason: RefusalReason) -> StepReply:
    """Nothing was called for a request, and why."""
    return _sent(
        StepFailed(
            **_common(request), kind="refused", effect="none", error=f"refused: {reason}", reason=reason
        )
    )


def progress(request: StepRequest, text: str, count: int, calls: int) -> AgentMessage:
    """How far a request is."""
    message = StepProgressed(**_common(request), calls=calls, text=text, count=count)
    arrived = decode(message.TYPE, encode(message))
    assert isinstance(arrived, StepProgressed)
    return arrived


def _common(request: StepRequest) -> dict[str, Any]:
    named = ("order_no", "client", "order_id", "step", "step_no", "lock", "fence")
    return {name: getattr(request, name) for name in named} | {"direction": direction_of(request)}


def _sent(message: StepReply) -> StepReply:
    arrived = decode(message.TYPE, encode(message))
    assert isinstance(arrived, StepSucceeded | StepFailed)
    return arrived
