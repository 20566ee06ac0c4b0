"""What crosses the wire: a closed union of frozen models, one per AMQP ``type``.

A body is one JSON object. Unknown members of a known version are ignored; an unknown type is dead-lettered.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, TypeAlias
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from triumvir.contracts.account import Account, StepAccount
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.names import Direction, Name, OrderId


def _storable(text: str) -> str:
    if "\x00" in text:
        raise PydanticCustomError("nul", "holds a NUL character", {"fix": "remove it"})
    return text


def _whole(value: Any) -> Any:
    """JSON numbers only: what looks like one to Python (``"5"``, ``true``) may not to another reader."""
    if isinstance(value, str | bool):
        raise PydanticCustomError("not_whole", "is no whole number", {"fix": "send a number, without quotes"})
    return value


def _bool(value: Any) -> Any:
    if not isinstance(value, bool):
        raise PydanticCustomError("not_bool", "is neither true nor false", {"fix": "send true or false"})
    return value


def _time_as_text(value: Any) -> Any:
    if not isinstance(value, str | datetime | None):
        raise PydanticCustomError("not_a_time", "is no time", {"fix": A_TIME})
    return value


def _in_utc(at: datetime) -> datetime:
    try:
        at.astimezone(UTC)
    except OverflowError:
        fix = "name a time between the years 1 and 9999, in UTC"
        raise PydanticCustomError("time_range", "is beyond what can be kept", {"fix": fix}) from None
    return at


A_TIME = "send ISO 8601 with a zone, such as 2030-01-31T09:00:00Z"
Whole = BeforeValidator(_whole)
TrueOrFalse = Annotated[bool, BeforeValidator(_bool)]
Time = Annotated[AwareDatetime, BeforeValidator(_time_as_text), AfterValidator(_in_utc)]


Text = Annotated[str, Field(max_length=10_000), AfterValidator(_storable)]
"""Text that Postgres can store."""

Effect = Literal["none", "unknown", "certain"]
"""What is known of a step at the remote side. ``unknown`` and ``certain`` are undone, ``none`` is not."""

FailureKind = Literal["transient", "permanent", "refused"]
RefusalReason = Literal["stale", "no_time", "unknown_operation"]
StatusName = Literal[
    "received", "processing", "step_completed", "retrying", "held", "compensating",
    "completed", "compensated", "cancelled", "failed", "compensation_failed", "closed",
    "rejected", "unknown_order", "cancel_refused", "signalled", "signal_refused", "progressed",
]  # fmt: skip
BigInt = Annotated[int, Field(ge=0, lt=2**63)]


class Message(BaseModel):
    """Base of every body. ``TYPE`` is the AMQP ``type`` property."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())
    TYPE: ClassVar[str]


class OrderSubmit(Message):
    """Client to submitter: run this order. Times, priority and progress: the first submission wins."""

    TYPE: ClassVar[str] = "order.submit.v1"
    order_id: OrderId
    workflow: Name
    version: Annotated[int, Field(ge=1, lt=2**31), Whole] | None = None
    payload: Annotated[JsonText, Field(json_schema_extra={"type": "object"})]
    priority: Annotated[int, Field(ge=-1000, le=1000), Whole] = 0
    not_before: Time | None = None
    progress: TrueOrFalse = False


class OrderCancel(Message):
    """Client to submitter: stop the order, or undo what was done."""

    TYPE: ClassVar[str] = "order.cancel.v1"
    order_id: OrderId
    reason: Text | None = None


class OrderSignal(Message):
    """Client to submitter: a signal that a step of the order waits for, or will wait for. ``data`` is its result."""

    TYPE: ClassVar[str] = "order.signal.v1"
    order_id: OrderId
    name: Name
    data: JsonText = JsonText(text="null")


class OrderQuery(Message):
    """Client to submitter: send the last status again, or all from ``from_sequence`` on."""

    TYPE: ClassVar[str] = "order.query.v1"
    order_id: OrderId
    from_sequence: Annotated[int, Field(ge=1, lt=2**31), Whole] | None = None


class _StepRequest(Message):
    order_no: BigInt
    client: Name
    order_id: OrderId
    workflow: Name
    version: int
    step: Name
    step_no: Annotated[int, Field(ge=1, lt=2**15)]
    operation: Name
    payload: JsonText
    results: dict[str, JsonText] = {}
    complete_by: AwareDatetime
    time_left_ms: int
    attempts_allowed: Annotated[int, Field(ge=0, le=1000)]
    idempotency_key: str
    generation: Annotated[int, Field(ge=0, lt=2**31)] = 0
    lock: UUID
    fence: BigInt
    attempt: int
    retry: int = 0
    confidential: bool = False
    """The data is of a confidential workflow: it is not to be logged, whatever comes of it."""


class StepExecute(_StepRequest):
    """Scheduler to agent: run an operation."""

    TYPE: ClassVar[str] = "step.execute.v1"


class StepCompensate(_StepRequest):
    """Scheduler to agent: undo an operation. ``result`` is what it returned, if that is known."""

    TYPE: ClassVar[str] = "step.compensate.v1"
    effect: Literal["unknown", "certain"]
    result: JsonText | None = None


class _StepReply(Message):
    order_no: BigInt
    client: Name
    order_id: OrderId
    step: Name
    step_no: Annotated[int, Field(ge=1, lt=2**15)]
    direction: Direction
    lock: UUID
    fence: BigInt
    calls: Annotated[int, Field(ge=0, lt=2**31)] = 0


class StepSucceeded(_StepReply):
    """Agent to scheduler: done. Completes the request."""

    TYPE: ClassVar[str] = "step.succeeded.v1"
    result: JsonText


class StepFailed(_StepReply):
    """Agent to scheduler: not done. Completes the request. ``reason`` is set for refusals only."""

    TYPE: ClassVar[str] = "step.failed.v1"
    kind: FailureKind
    effect: Literal["none", "unknown"]
    error: Text
    reason: RefusalReason | None = None


class StepProgressed(_StepReply):
    """Agent to scheduler: how far it is. Completes nothing. ``count`` orders the reports of one call, from 1."""

    TYPE: ClassVar[str] = "step.progressed.v1"
    text: Text
    count: Annotated[int, Field(ge=1, lt=2**31)]


class Status(Message):
    """Scheduler or submitter to client. ``sequence`` rises by one per order; 0 for answers that belong to no order."""

    TYPE: ClassVar[str] = "status.v1"
    order_id: str
    """The id that the client chose."""
    status: StatusName
    """``received``, ``retrying``, ``completed``, ...: one of the words of the protocol."""
    sequence: Annotated[int, Field(ge=0)]
    """Rises by one per order, from 1; 0 for answers that belong to no order."""
    at: datetime
    """When it became so, by the database's clock, in UTC."""
    workflow: str | None = None
    """The name of the order's workflow."""
    step: str | None = None
    """The name of the step that it is about, if it is about one."""
    detail: str | None = None
    """Why, in words; of a refusal it begins with the reason, a short stable word."""
    result: JsonText | None = None
    """With ``completed``: the last step's result; its ``value`` is the JSON value."""
    submission: str | None = None
    """Of a refusal: the message id of what was refused."""
    steps: tuple[StepAccount, ...] | None = None
    """With ``compensation_failed``: of each step that was begun, what it left and what became of that."""


class Alert(Message):
    """Any process to operators: something needs a human."""

    TYPE: ClassVar[str] = "alert.v1"
    kind: Name
    subject: str
    detail: str
    at: datetime
    order: str | None = None
    account: Account | None = None
    """With ``compensation-failed``: what was done, what was undone and what was not, the errors, the data."""


class SchedulerWake(Message):
    """Hint: there is pending work. May be lost."""

    TYPE: ClassVar[str] = "scheduler.wake.v1"


FromClient: TypeAlias = OrderSubmit | OrderCancel | OrderSignal | OrderQuery
StepRequest: TypeAlias = StepExecute | StepCompensate
StepReply: TypeAlias = StepSucceeded | StepFailed
"""What completes a request."""
AgentMessage: TypeAlias = StepReply | StepProgressed
AnyMessage: TypeAlias = FromClient | StepRequest | AgentMessage | Status | Alert | SchedulerWake
