"""Replies to the scheduler."""

from __future__ import annotations

from typing import Any

from triumvir.agent.calling import Outcome, Success
from triumvir.broker import INTERNAL_EXCHANGE, REPLIES, OutMessage
from triumvir.contracts.codec import encode
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import (
    AgentMessage,
    RefusalReason,
    StepFailed,
    StepProgressed,
    StepReply,
    StepRequest,
    StepSucceeded,
)
from triumvir.contracts.names import order_key, reply_id, request_id
from triumvir.telemetry import tracing
from triumvir_agent.requests import direction_of

_WHY: dict[RefusalReason, str] = {
    "stale": "a newer attempt, or the undo, came first",
    "no_time": "no time was left when the request arrived",
    "unknown_operation": "this agent does not offer the operation",
}


def reply(request: StepRequest, outcome: Outcome, calls: int, trace: str) -> OutMessage:
    """What became of a request."""
    body: StepReply
    if isinstance(outcome, Success):
        body = StepSucceeded.model_construct(
            **_common(request), calls=calls, result=JsonText(text=outcome.result)
        )
    else:
        body = StepFailed.model_construct(
            **_common(request),
            calls=calls,
            kind=outcome.kind,
            effect=outcome.effect,
            error=outcome.error,
            reason=None,
        )
    return _message(request, body, trace)


def refusal(request: StepRequest, reason: RefusalReason, trace: str) -> OutMessage:
    """Nothing was called for a request, and why."""
    body = StepFailed.model_construct(
        **_common(request), calls=0, kind="refused", effect="none", error=_WHY[reason], reason=reason
    )
    return _message(request, body, trace)


def progress(request: StepRequest, text: str, count: int, calls: int, trace: str) -> OutMessage:
    """How far a request is; it stays open."""
    body = StepProgressed.model_construct(**_common(request), calls=calls, text=text, count=count)
    return _message(request, body, trace, number=count + 1)


def _common(request: StepRequest) -> dict[str, Any]:
    return {
        "order_no": request.order_no,
        "client": request.client,
        "order_id": request.order_id,
        "step": request.step,
        "step_no": request.step_no,
        "direction": direction_of(request),
        "lock": request.lock,
        "fence": request.fence,
    }


def _message(request: StepRequest, body: AgentMessage, trace: str, number: int = 1) -> OutMessage:
    key = order_key(request.client, request.order_id)
    asked = request_id(key, request.step, direction_of(request), request.attempt)
    message_id = reply_id(asked, number)
    with tracing.send(INTERNAL_EXCHANGE, REPLIES, message_id, key, trace) as span:
        headers = {tracing.TRACEPARENT_HEADER: span.traceparent}
    return OutMessage(INTERNAL_EXCHANGE, REPLIES, message_id, body.TYPE, key, encode(body), headers)
