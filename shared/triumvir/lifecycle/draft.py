"""A decision in the making: each move appends its log row and what must be sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import StatusName
from triumvir.lifecycle.policy import Policy
from triumvir.lifecycle.record import Decision, LogRow, OrderRecord, Send, SendAlert, SendStatus, StepRecord
from triumvir.lifecycle.retry import RetryPolicy
from triumvir.lifecycle.states import END, State
from triumvir.workflow import Workflow

PAUSED: Final = "pause:order"
"""Holds an order that an operator paused; other reasons that begin with ``pause:`` name what is paused as a whole."""

HoldReason = Callable[[str, str], str | None]
"""``(agent, operation)`` to why it cannot be dispatched now, or None if it can."""


class Moment(Struct, frozen=True):
    """What time, chance and the surroundings bring in: the database's clock, an unused lock, a draw from
    0 to 1, what cannot be dispatched now, the order's payload if its workflow looks at data, why nothing
    of this order can be dispatched now, if so, and what holds it because its workflow is ``paused``, if it is.
    """

    now: datetime
    lock: UUID
    draw: float = 0.5
    hold_reason: HoldReason = lambda agent, operation: None
    payload: JsonText | None = None
    withheld: str | None = None
    paused: str | None = None


class Draft:
    """Collects one decision. Not shared, not kept."""

    def __init__(self, record: OrderRecord, workflow: Workflow, moment: Moment, policy: Policy) -> None:
        self.record = record
        self.workflow = workflow
        self.moment = moment
        self.policy = policy
        self.late = False
        self._sends: list[Send] = []
        self._log: list[LogRow] = []

    def move(
        self,
        why: str,
        *,
        to: State | None = None,
        tell: StatusName | None = None,
        step_no: int | None = None,
        account: str | None = None,
        **changes: Any,
    ) -> None:
        """Writes one log row: the order goes to ``to`` (or stays), and the client is told ``tell`` if given."""
        before = self.record.state
        after = to or before
        history = self.record.history + 1
        sequence = self.record.sequence + 1 if tell else None
        row = LogRow(history, self.moment.now, before, after, why, step_no, tell, sequence, account)
        self._log.append(row)
        if tell:
            self._sends.append(SendStatus(history))
        self.record = replace(
            self.record,
            state=after,
            history=history,
            sequence=sequence or self.record.sequence,
            ended_at=(self.record.ended_at or self.moment.now) if after in END else None,
            **changes,
        )

    def set_step(self, step: StepRecord) -> None:
        """Writes a step record."""
        self.record = self.record.with_step(step)

    def send(self, send: Send) -> None:
        """Adds a message that leaves after the commit."""
        self._sends.append(send)

    def alert(self, kind: Any) -> None:
        """Tells the operators why the last move was made."""
        self._sends.append(SendAlert(kind, self.record.history))

    @property
    def withheld(self) -> str | None:
        """Why no step of this order may begin now, whatever it is; None if one may."""
        paused = PAUSED if self.record.paused_at is not None else self.moment.paused
        return paused or self.moment.withheld

    @property
    def moved(self) -> bool:
        """Whether anything was decided so far."""
        return bool(self._log)

    def step_policy(self, step_no: int) -> RetryPolicy:
        """The policy of what the order does with a step now: run it, or undo it."""
        step = self.workflow.step(step_no)
        action = step.undo if self.record.direction == "undo" and step.undo else step.operation
        entry = self.record.step_record(step_no)
        return self.policy.of(self.workflow, step, action, asking=entry is not None and entry.asking)

    def next_fence(self) -> int:
        """Rises with every claim, re-opening and start of compensation; never behind the database's clock."""
        return max(self.record.fence + 1, int(self.moment.now.timestamp() * 1_000_000))

    def unlocked(self) -> dict[str, Any]:
        """The changes that end an attempt: no lock, no deadline, no timers, a higher fence."""
        return {
            "locked_by": None,
            "complete_by": None,
            "wake_at": None,
            "sent_at": None,
            "retries": 0,
            "fence": self.next_fence(),
        }

    def decision(self) -> Decision:
        return Decision(self.record, tuple(self._sends), tuple(self._log), self.late)
