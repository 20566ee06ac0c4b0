"""An order and its steps as frozen values: what the heart reads and what it returns."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import Effect, StatusName
from triumvir.contracts.names import Direction, order_key
from triumvir.lifecycle.states import State, StepState, UndoState


class StepRecord(Struct, frozen=True):
    """A step that was dispatched at least once, or skipped; also its entry in the compensation log.

    ``effect`` is what all requests *answered or expired so far* say of the remote side. ``state`` is
    ``running`` while the last request is unanswered, ``failed`` when it was answered without success,
    ``skipped`` if its condition was false, ``waiting`` for its signal, ``signalled`` if that came before the
    step was reached. ``attempt`` 0: it was decided on before the order's first attempt. ``by_hand``: an
    operator said that it was done, or undone, outside. ``wait_left``: how long a wait that was held goes on.
    ``undo_calls`` were made to undo it.
    ``calls_upto``: how many the calls of the step, or of its undo, may become by the request that was sent last
    (None: a release without budgets sent it); ``undo_limit``: how many those of the undo may become in all.
    ``undo_attempt``: the attempt that sent its undo last; the other ``undo_`` times and ``undo_retries`` are those of
    that request, as the order's own are those of a step that runs. ``undo_complete_by`` is None once it is answered
    for good.
    ``led_to``: the ordinal of the step that its time-out led to. ``asking``: its next request, or the one under way,
    asks what came of it and calls nothing. ``progress``: what was reported last of it, or of its undo, as
    ``lifecycle.progress`` writes it.
    """

    step_no: int
    attempt: int
    state: StepState = "running"
    calls: int = 0
    effect: Effect = "none"
    result: str | None = None
    error: str | None = None
    undo_state: UndoState | None = None
    undo_tries: int = 0
    undo_generation: int = 0
    undo_error: str | None = None
    generation: int = 0
    by_hand: bool = False
    wait_left: timedelta | None = None
    undo_calls: int = 0
    calls_upto: int | None = None
    undo_limit: int | None = None
    undo_attempt: int = 0
    undo_sent_at: datetime | None = None
    undo_complete_by: datetime | None = None
    undo_wake_at: datetime | None = None
    undo_retries: int = 0
    led_to: int | None = None
    asking: bool = False
    progress: str | None = None

    def allowed(self, direction: Direction) -> int | None:
        """Calls that the request sent last may make; None if a release without budgets sent it."""
        made = self.calls if direction == "do" else self.undo_calls
        return None if self.calls_upto is None else max(0, self.calls_upto - made)

    @property
    def begun(self) -> bool:
        """Whether any request for this step may have reached its remote service."""
        return self.calls > 0 or self.effect != "none"


class UnderWay(Struct, frozen=True):
    """A request that is out: first sent, answered until, next sent again (None: not any more), sent again so often."""

    step_no: int
    direction: Direction
    sent_at: datetime | None
    complete_by: datetime
    wake_at: datetime | None
    retries: int


class OrderRecord(Struct, frozen=True):
    """The state record of an order. Times are the database's. ``step`` is the ordinal (from 1) that is being
    run or, while compensating, undone: of several the latest. ``complete_by`` is then the latest deadline of their
    requests, ``wake_at`` the earliest time of a re-send. ``held_at`` means something only while ``held_by`` does.
    ``sequence`` numbers published statuses, ``history`` log rows. ``budget``: calls granted beyond the first of each
    step, None before the first dispatch.
    """

    no: int
    client: str
    order_id: str
    workflow: str
    version: int
    state: State = "pending"
    locked_by: UUID | None = None
    fence: int = 0
    attempt: int = 0
    step: int | None = None
    sent_at: datetime | None = None
    complete_by: datetime | None = None
    wake_at: datetime | None = None
    retries: int = 0
    not_before: datetime | None = None
    held_by: str | None = None
    held_at: datetime | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None
    cancel_requested: bool = False
    failure_count: int = 0
    unbegun_count: int = 0
    sequence: int = 0
    history: int = 0
    progress: bool = False
    told_retrying: bool = False
    told_held: bool = False
    status_queue: str = ""
    trace: str | None = None
    ended_at: datetime | None = None
    budget: int | None = None
    steps: tuple[StepRecord, ...] = ()

    @property
    def key(self) -> str:
        return order_key(self.client, self.order_id)

    @property
    def direction(self) -> Direction:
        return "undo" if self.state == "compensating" else "do"

    @property
    def begun(self) -> bool:
        return any(step.begun or step.state == "running" for step in self.steps)

    @property
    def undos_out(self) -> tuple[StepRecord, ...]:
        """The entries whose undo was sent by this attempt and is not answered for good, the latest step first."""
        if self.state != "compensating" or self.locked_by is None:
            return ()
        sent = tuple(step for step in reversed(self.steps) if self._is_out(step))
        return sent or self._sent_by_the_order()

    def _is_out(self, step: StepRecord) -> bool:
        answered = step.undo_state != "undoing" or step.undo_complete_by is None
        return not answered and step.undo_attempt == self.attempt

    def _sent_by_the_order(self) -> tuple[StepRecord, ...]:
        """The one undo that a process of an earlier release has sent: it knows the order's own times only."""
        step = self.step_record(self.step or 0)
        if step is None or step.undo_state != "undoing" or step.undo_attempt == self.attempt:
            return ()
        sent = replace(
            step,
            undo_attempt=self.attempt,
            undo_sent_at=self.sent_at,
            undo_complete_by=self.complete_by,
            undo_wake_at=self.wake_at,
            undo_retries=self.retries,
        )
        return (sent,)

    @property
    def under_way(self) -> tuple[UnderWay, ...]:
        """The requests whose answers this attempt waits for: that of a step that runs, or those of some undos."""
        if self.state == "compensating":
            return tuple(_undo_under_way(step) for step in self.undos_out)
        step = self.step_record(self.step or 0)
        if self.locked_by is None or self.complete_by is None or step is None or step.state == "waiting":
            return ()
        return (UnderWay(step.step_no, "do", self.sent_at, self.complete_by, self.wake_at, self.retries),)

    def request_under_way(self, step_no: int, direction: Direction) -> UnderWay | None:
        """The request of a step and direction, if this attempt waits for its answer."""
        asked = step_no, direction
        return next((each for each in self.under_way if (each.step_no, each.direction) == asked), None)

    def step_record(self, step_no: int) -> StepRecord | None:
        """The record of a step, or None if it was never dispatched."""
        return next((step for step in self.steps if step.step_no == step_no), None)

    @property
    def result(self) -> str | None:
        """What the last step that has a result returned, as JSON text: the result of a processed order."""
        return next((step.result for step in reversed(self.steps) if step.state == "completed"), None)

    def with_step(self, changed: StepRecord) -> OrderRecord:
        """This order with one step record added or exchanged; they stay in order of their ordinals."""
        others = [step for step in self.steps if step.step_no != changed.step_no]
        return replace(self, steps=tuple(sorted([*others, changed], key=lambda step: step.step_no)))


def _undo_under_way(step: StepRecord) -> UnderWay:
    if step.undo_complete_by is None:
        raise LookupError(f"the undo of step {step.step_no} is under way without a deadline")
    return UnderWay(
        step.step_no, "undo", step.undo_sent_at, step.undo_complete_by, step.undo_wake_at, step.undo_retries
    )


class SendRequest(Struct, frozen=True):
    """Publish a request that the order waits for (again, if ``retry`` > 0).

    ``argument`` is what the step selects, None if it takes the payload as it is.
    """

    step_no: int
    direction: Direction
    fence: int
    retry: int = 0
    argument: JsonText | None = None


class SendStatus(Struct, frozen=True):
    """Publish the status written in log row ``history``."""

    history: int


class SendAlert(Struct, frozen=True):
    """Tell the operators. ``history`` is the log row whose ``why`` is the text."""

    kind: Literal[
        "order-halted", "compensation-failed", "never-begun", "late-success", "unclaimed-long", "held-long"
    ]
    history: int


Send = SendRequest | SendStatus | SendAlert


class LogRow(Struct, frozen=True):
    """One row of ``transitions``: append-only history, and the replay of statuses. ``account``: of an order that could
    not be undone, what was undone and what was not.
    """

    n: int
    at: datetime
    before: State
    after: State
    why: str
    step_no: int | None = None
    status: StatusName | None = None
    sequence: int | None = None
    account: str | None = None


class Decision(Struct, frozen=True):
    """What an event means for an order. ``changed`` is False if nothing at all has to be written."""

    record: OrderRecord
    sends: tuple[Send, ...] = ()
    log: tuple[LogRow, ...] = ()
    late: bool = False

    @property
    def changed(self) -> bool:
        return bool(self.log)
