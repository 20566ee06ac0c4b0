"""Messages made of rows: one builder for each kind that an outbox row can refer to.

The process that commits builds them from what it holds in memory, a sweep of the outbox from what it reads;
both through these functions, so that a message sent again is the same message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from triumvir.broker import (
    ALERTS,
    INTERNAL_EXCHANGE,
    ORDERS,
    OutMessage,
    agent_queue,
    client_of_status_queue,
    dead_queue,
    status_queue,
)
from triumvir.broker.sendable import MAX_BODY
from triumvir.contracts.account import Account
from triumvir.contracts.codec import encode
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import (
    Alert,
    Message,
    Status,
    StatusName,
    StepCompensate,
    StepExecute,
)
from triumvir.contracts.names import (
    alert_id,
    idempotency_key,
    is_name,
    order_key,
    request_id,
    status_id,
)
from triumvir.lifecycle import LogRow, OrderRecord, SendRequest, account_summary
from triumvir.runtime import accounts
from triumvir.telemetry import tracing
from triumvir.workflow import Workflow

_MILLISECOND: Final = timedelta(milliseconds=1)
_MOST_BYTES: Final = 255
"""Of a property of a message that is text."""


@dataclass(frozen=True, slots=True)
class StatusFact:
    """A history row that was, or is to be, told: everything a status or an alert is made of."""

    no: int
    client: str
    order_id: str
    workflow: str
    version: int
    status_queue: str
    trace: str | None
    n: int
    at: datetime
    why: str
    step_no: int | None
    status: StatusName | None
    sequence: int | None
    result: str | None = None
    account: str | None = None

    @classmethod
    def of(cls, record: OrderRecord, row: LogRow) -> StatusFact:
        """From a decision that was just made."""
        return cls(
            record.no, record.client, record.order_id, record.workflow, record.version, record.status_queue,
            record.trace, row.n, row.at, row.why, row.step_no, row.status, row.sequence,
            record.result if row.status == "completed" else None, row.account,
        )  # fmt: skip

    @property
    def key(self) -> str:
        return order_key(self.client, self.order_id)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that could not be accepted: what came, from whom, and why not."""

    id: UUID
    queue: str
    reason: str
    detail: str
    client: str | None
    message_id: str | None
    type: str | None
    correlation_id: str | None
    reply_to: str | None
    content_type: str | None
    headers: str
    body: bytes
    at: datetime


def request(
    record: OrderRecord,
    workflow: Workflow,
    send: SendRequest,
    payload: str,
    now: datetime,
    calls_allowed: int,
) -> OutMessage:
    """A request that the order waits for. ``calls_allowed``: calls the agent may make for it, if a release that
    kept no account of them dispatched it. ``payload`` is handed on as it is if ``send`` carries no argument.
    """
    step = workflow.step(send.step_no)
    entry = record.step_record(send.step_no)
    out = record.request_under_way(send.step_no, send.direction)
    if entry is None or out is None:
        raise LookupError(f"{record.key}: no {send.direction} of step {send.step_no} is under way")
    body: Message
    reserved = entry.allowed(send.direction)
    calls_allowed = calls_allowed if reserved is None else reserved
    if send.direction == "do":
        generation = entry.generation
        common = _request_members(record, workflow, send, payload, out.complete_by, now, generation)
        allowed = 0 if entry.asking else calls_allowed if step.recoverable else min(1, calls_allowed)
        body = StepExecute.model_construct(operation=step.operation, attempts_allowed=allowed, **common)
    else:
        generation = entry.undo_generation
        common = _request_members(record, workflow, send, payload, out.complete_by, now, generation)
        body = StepCompensate.model_construct(
            operation=step.undo or "",
            attempts_allowed=calls_allowed,
            effect="certain" if entry.effect == "certain" else "unknown",
            result=None if entry.result is None else JsonText(text=entry.result),
            **common,
        )
    message_id = request_id(record.key, step.name, send.direction, record.attempt)
    return _internal(
        agent_queue(step.agent), message_id, body, record.key, record.trace, first=send.retry == 0
    )


def _request_members(
    record: OrderRecord,
    workflow: Workflow,
    send: SendRequest,
    payload: str,
    complete_by: datetime,
    now: datetime,
    generation: int,
) -> dict[str, Any]:
    step = workflow.step(send.step_no).name
    return {
        "order_no": record.no,
        "client": record.client,
        "order_id": record.order_id,
        "workflow": record.workflow,
        "version": record.version,
        "step": step,
        "step_no": send.step_no,
        "payload": send.argument or JsonText(text=payload),
        "results": {
            workflow.step(done.step_no).name: JsonText(text=done.result)
            for done in record.steps
            if done.result is not None
            and done.step_no != send.step_no
            and done.led_to is None
            and done.state != "signalled"
        },
        "complete_by": complete_by,
        "time_left_ms": max(0, (complete_by - now) // _MILLISECOND),
        "idempotency_key": idempotency_key(record.key, step, send.direction, generation),
        "generation": generation,
        "lock": record.locked_by,
        "fence": record.fence,
        "attempt": record.attempt,
        "retry": send.retry,
        "confidential": workflow.is_confidential,
    }


def status(fact: StatusFact, step: str | None, *, first: bool = True) -> OutMessage:
    """The status that a history row says. ``step``: the name of its step."""
    if fact.status is None or fact.sequence is None:
        raise LookupError(f"{fact.key}: history row {fact.n} was not told")
    body = Status.model_construct(
        order_id=fact.order_id,
        status=fact.status,
        sequence=fact.sequence,
        at=fact.at,
        workflow=fact.workflow,
        step=step,
        detail=fact.why,
        result=None if fact.result is None else JsonText(text=fact.result),
        steps=accounts.for_client(fact.account),
    )
    message_id = status_id(fact.key, fact.status, fact.sequence)
    return _internal(fact.status_queue, message_id, body, fact.key, fact.trace, first=first)


def answer(
    queue: str,
    client: str,
    order_id: str,
    name: StatusName,
    submission: str | None,
    detail: str,
    at: datetime,
) -> OutMessage:
    """A status without a number: ``rejected`` or ``unknown_order``, naming the message it answers."""
    body = Status.model_construct(
        order_id=order_id, status=name, sequence=0, at=at, detail=detail, submission=submission
    )
    key = order_key(client, order_id)
    return _internal(queue, _short(f"{name}/{submission or key}"), body, _short(key), None)


def order_alert(kind: str, fact: StatusFact, account: Account | None = None) -> OutMessage:
    """Tells the operators of an order that needs them."""
    subject = f"{fact.key}/{fact.n}"
    detail = f"{fact.why}; {account_summary(account.steps)}" if account else fact.why
    body = Alert.model_construct(
        kind=kind, subject=subject, detail=detail, at=fact.at, order=fact.key, account=account
    )
    return _internal(ALERTS, alert_id(kind, subject), body, fact.key, fact.trace)


def letter_alert(letter: DeadLetter) -> OutMessage:
    """Tells the operators of a message that was set aside."""
    detail = f"{letter.queue}: {letter.reason}: {letter.detail}"
    body = Alert.model_construct(
        kind="dead-letter", subject=str(letter.id), detail=detail, at=letter.at, order=None
    )
    return _internal(ALERTS, alert_id("dead-letter", str(letter.id)), body, str(letter.id), None)


def outbox_alert(outbox_id: int, problem: str, at: datetime) -> OutMessage:
    """Tells the operators of an outbox row that this release cannot make messages of."""
    detail = f"an outbox row cannot be read and is kept: {problem}"
    body = Alert.model_construct(
        kind="outbox-unreadable", subject=str(outbox_id), detail=detail, at=at, order=None
    )
    return _internal(ALERTS, alert_id("outbox-unreadable", str(outbox_id)), body, str(outbox_id), None)


def letter_copy(letter: DeadLetter) -> OutMessage:
    """The copy in the ``.dead`` queue; its message id is the row's. A body beyond what can be sent stays in the row:
    brokers take larger messages from clients than services send.
    """
    headers = {"triumvir-reason": letter.reason}
    fits = len(letter.body) <= MAX_BODY
    return OutMessage(
        exchange=INTERNAL_EXCHANGE,
        routing_key=dead_queue(letter.queue),
        message_id=str(letter.id),
        type=_short(letter.type or ""),
        correlation_id=_short(letter.correlation_id or ""),
        body=letter.body if fits else b"",
        headers=headers if fits else {**headers, "triumvir-bytes-left-out": str(len(letter.body))},
    )


def rejected(letter: DeadLetter, order_id: str) -> OutMessage | None:
    """Tells the sender of a refused submission; None where there is no sender to tell. A queue that is not the
    sender's own is never written to, whatever the refused message named.
    """
    if letter.client is None or not is_name(letter.client) or letter.queue != ORDERS:
        return None
    own = letter.reply_to is not None and client_of_status_queue(letter.reply_to) == letter.client
    queue = letter.reply_to if letter.reply_to is not None and own else status_queue(letter.client)
    return answer(
        queue,
        letter.client,
        order_id,
        "rejected",
        letter.message_id,
        f"{letter.reason}: {letter.detail}",
        letter.at,
    )


def _short(text: str) -> str:
    """As much as fits into a property of a message: clients name orders in words that are too long, too."""
    return text.encode()[:_MOST_BYTES].decode(errors="ignore")


def _internal(
    queue: str, message_id: str, body: Message, key: str, trace: str | None, *, first: bool = True
) -> OutMessage:
    headers: Mapping[str, str] = {}
    if trace is not None:
        with tracing.send(INTERNAL_EXCHANGE, queue, message_id, key, trace, first=first) as span:
            headers = {tracing.TRACEPARENT_HEADER: span.traceparent}
    return OutMessage(INTERNAL_EXCHANGE, queue, message_id, body.TYPE, key, encode(body), headers)
