"""One order, one event at a time, as short sentences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Any, Literal
from uuid import UUID

from msgspec.structs import replace

from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import FailureKind, RefusalReason, StepFailed, StepReply, StepSucceeded
from triumvir.contracts.names import Direction
from triumvir.lifecycle import (
    Broken,
    CancelRequested,
    Claimed,
    Decision,
    Event,
    Expired,
    Moment,
    OperatorAsked,
    OrderRecord,
    Policy,
    Replied,
    RetryDue,
    SendAlert,
    SendRequest,
    StepRecord,
    decide,
)
from triumvir.workflow import OnError, Step, UndoOrder, Workflow

START = datetime(2030, 1, 1, tzinfo=UTC)


def workflow_of(
    *names: str, on_error: OnError = "halt", undo_order: UndoOrder = "reverse", ranks: Sequence[int] = ()
) -> Workflow:
    """Steps of one agent, each with an undo, but those that begin with ``check``. ``ranks``: of their undos."""
    steps = [
        Step(
            name,
            agent="a",
            operation=name,
            undo=None if name.startswith("check") else f"undo-{name}",
            undo_rank=rank,
        )
        for name, rank in zip_longest(names, ranks)
    ]
    return Workflow("w", 1, steps, on_error, undo_order)


class OneOrder:
    """An order that was accepted and told so; ``last`` is what the latest event decided."""

    def __init__(
        self,
        *steps: str,
        on_error: OnError = "halt",
        policy: Policy | None = None,
        progress: bool = False,
        undo_order: UndoOrder = "reverse",
        ranks: Sequence[int] = (),
    ) -> None:
        self.workflow = workflow_of(*steps, on_error=on_error, undo_order=undo_order, ranks=ranks)
        self.policy = policy or Policy(jitter_factor=0)
        self.now = START
        self.record = OrderRecord(1, "shop", "o1", "w", 1, sequence=1, history=1, progress=progress)
        self.last = Decision(self.record)
        self.statuses: list[str] = []
        self.alerts: list[str] = []
        self.requests: list[SendRequest] = []
        self.holds: dict[str, str] = {}
        self.payload: JsonText | None = None
        self.withheld: str | None = None
        self.draw = 0.5
        self.paused: str | None = None

    def on(self, event: Event) -> Decision:
        """One event."""
        lock = UUID(int=self.record.history)
        reasons = self.holds.get
        moment = Moment(
            self.now,
            lock,
            self.draw,
            lambda agent, operation: reasons(operation),
            self.payload,
            self.withheld,
            self.paused,
        )
        self.last = decide(self.record, self.workflow, event, moment, self.policy)
        self.record = self.last.record
        self.statuses += [row.status for row in self.last.log if row.status]
        self.alerts += [send.kind for send in self.last.sends if isinstance(send, SendAlert)]
        self.requests += [send for send in self.last.sends if isinstance(send, SendRequest)]
        return self.last

    @property
    def state(self) -> str:
        return self.record.state

    def entry(self, step_no: int = 1) -> StepRecord:
        """The record of a step."""
        step = self.record.step_record(step_no)
        assert step is not None
        return step

    # Events

    def claim(self) -> Decision:
        return self.on(Claimed())

    def cancel(self, reason: str | None = None) -> Decision:
        return self.on(CancelRequested(reason))

    def break_(self) -> Decision:
        return self.on(Broken("a fault"))

    def retry_due(self) -> Decision:
        return self.on(RetryDue())

    def expire(self, *, begun: bool = True, calls: int = 1) -> Decision:
        """The deadline passes, the supervisor comes."""
        if self.record.complete_by is not None:
            self.now = max(self.now, self.record.complete_by)
        return self.on(Expired(begun, calls))

    def release(self) -> None:
        """A hold is lifted; no decision is needed for it."""
        self.record = replace(self.record, held_by=None)

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def retry(self) -> Decision:
        """An operator has the failed step tried again."""
        return self.on(OperatorAsked("retry", "an operator"))

    def reopen(self) -> None:
        """An attempt fails by its deadline; the next one is claimed once its back-off is over."""
        self.expire()
        self.wait(60)
        self.claim()

    def succeed(self, result: Any = None) -> Decision:
        return self.on(Replied(self.success(result)))

    def fail(
        self,
        kind: FailureKind = "permanent",
        effect: Literal["none", "unknown"] = "none",
        *,
        calls: int = 1,
        reason: RefusalReason | None = None,
    ) -> Decision:
        return self.on(Replied(self.failure(kind, effect, calls=calls, reason=reason)))

    def refuse(self, reason: RefusalReason) -> Decision:
        return self.fail("refused", calls=0, reason=reason)

    # Replies to a request that is under way (the order's present one without ``step_no``), to be given now or later

    def success(self, result: Any = None, *, calls: int = 1, step_no: int | None = None) -> StepSucceeded:
        return StepSucceeded(**self._head(step_no), calls=calls, result=JsonText.of(result))

    def failure(
        self,
        kind: FailureKind = "permanent",
        effect: Literal["none", "unknown"] = "none",
        *,
        calls: int = 1,
        reason: RefusalReason | None = None,
        step_no: int | None = None,
    ) -> StepFailed:
        return StepFailed(
            **self._head(step_no), calls=calls, kind=kind, effect=effect, error="no luck", reason=reason
        )

    def reply(self, reply: StepReply) -> Decision:
        return self.on(Replied(reply))

    def _head(self, step_no: int | None) -> dict[str, Any]:
        record = self.record
        direction: Direction = record.direction
        step_no = step_no or record.step
        assert step_no is not None
        assert record.locked_by is not None
        return {
            "order_no": record.no,
            "client": record.client,
            "order_id": record.order_id,
            "step": self.workflow.step(step_no).name,
            "step_no": step_no,
            "direction": direction,
            "lock": record.locked_by,
            "fence": record.fence,
        }
