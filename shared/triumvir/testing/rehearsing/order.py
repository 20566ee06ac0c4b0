"""One order in memory, and what scheduler, supervisor and client do to it: the real heart, on the loop's time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Final, assert_never
from uuid import UUID

from msgspec.structs import replace

from triumvir.broker import OutMessage, status_queue
from triumvir.contracts.codec import decode
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import AgentMessage, Alert, Status, StepCompensate, StepExecute
from triumvir.lifecycle import (
    END,
    RESTING,
    CancelRequested,
    Claimed,
    Decision,
    Event,
    Expired,
    LogRow,
    Moment,
    OrderRecord,
    Replied,
    RetryDue,
    Revived,
    SendAlert,
    SendRequest,
    SendStatus,
    decide,
    set_aside,
    waiting_step,
)
from triumvir.runtime import accounts, outgoing
from triumvir.runtime.decisions import policy_of
from triumvir.runtime.outgoing import StatusFact
from triumvir.settings import Settings
from triumvir.testing.rehearsing.agents import RehearsedAgents
from triumvir.testing.rehearsing.clock import START, Clock
from triumvir.testing.rehearsing.outcome import Outcome, RehearsedCall
from triumvir.workflow import Workflow

NO: Final = 1
CLIENT: Final = "rehearsal"
HoldReason = Callable[[str, str, datetime], tuple[str, datetime | None] | None]
"""``(agent, operation, now)`` to why it cannot be dispatched, and when that ends; None if it can."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What the client submits: which order, and whether it wants to be told of each step."""

    order_id: str
    payload: JsonText
    progress: bool


class RehearsedOrder:
    """The order's row, its history, and what client and operators were told."""

    def __init__(
        self,
        workflow: Workflow,
        submission: Submission,
        settings: Settings,
        hold_reason: HoldReason,
        chance: Random,
    ) -> None:
        self.clock = Clock()
        self.record = OrderRecord(
            NO,
            CLIENT,
            submission.order_id,
            workflow.name,
            workflow.version,
            status_queue=status_queue(CLIENT),
            sequence=1,
            history=1,
            progress=submission.progress,
        )
        self.log: list[LogRow] = []
        self._revival: datetime | None = None
        self.statuses: list[Status] = []
        self.alerts: list[Alert] = []
        self._workflow, self._payload, self._settings = workflow, submission.payload, settings
        self._policy = policy_of(settings)
        self._hold_reason, self._chance = hold_reason, chance
        self._held_until: datetime | None = None
        self._moved = asyncio.Event()
        received = LogRow(1, START, "pending", "pending", "received", None, "received", 1)
        self._write(Decision(self.record, (SendStatus(1),), (received,)))

    def attach(self, agents: RehearsedAgents) -> None:
        """Where its requests go."""
        self._agents = agents

    @property
    def moves(self) -> int:
        """How many moves it has made."""
        return self.record.history

    # What happens to it

    def reply(self, reply: AgentMessage) -> None:
        """An agent's answer, or how far it is."""
        self._apply(Replied(reply))

    def cancel(self) -> None:
        """The client's cancel."""
        self._apply(CancelRequested())

    def moved(self) -> None:
        """Something may have changed: look again."""
        self._moved.set()

    def orphaned(self) -> None:
        """The scheduler that sent a request is gone: a supervisor finds its lease lapsed."""
        self._revival = self._scan_after(self.clock.now() + self._settings.instance_lease)

    async def play(self, asked: Sequence[tuple[datetime, Event]], until: datetime) -> str | None:
        """Until it rests and nothing is under way; why it does not rest, if so. ``asked``: by client or operators."""
        asked = sorted(asked, key=lambda each: each[0])
        while True:
            self._moved.clear()
            self._agents.check()
            while asked and asked[0][0] <= self.clock.now():
                self._apply(asked[0][1])
                asked = asked[1:]
            self._do_what_is_due()
            times = [*self._times(), *(at for at, _ in asked[:1])]
            if not times and not self._agents.busy and not self._moved.is_set():
                return self._stuck()
            if self.clock.now() >= until:
                return self._stuck() or f"something is still under way after {until - START}"
            await self._wait(min([*times, until]))

    async def _wait(self, until: datetime) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(Clock.of(until)):
                await self._moved.wait()

    def _stuck(self) -> str | None:
        if self.record.state in END | RESTING:
            return None
        if self.record.held_by is not None:
            return f"held by {self.record.held_by}"
        return f"still {self.record.state} after {self.clock.now() - START}: {self.log[-1].why}"

    def outcome(
        self, calls: Sequence[RehearsedCall], stuck: str | None, unstruck: tuple[str, ...]
    ) -> Outcome:
        """What came of it."""
        record = self.record
        result = None if record.result is None else JsonText(text=record.result).value
        return Outcome(
            state=record.state,
            result=result if record.state == "processed" else None,
            steps={self._workflow.step(step.step_no).name: step for step in record.steps},
            statuses=tuple(self.statuses),
            alerts=tuple(self.alerts),
            calls=tuple(calls),
            history=tuple(self.log),
            elapsed=self.log[-1].at - START,
            stuck=stuck,
            unstruck=unstruck,
        )

    # What schedulers and the supervisor do

    def _do_what_is_due(self) -> None:
        while self._claim() or self._send_again() or self._supervise():
            pass

    def _claim(self) -> bool:
        record, now = self.record, self.clock.now()
        due = record.not_before is None or record.not_before <= now
        free = record.locked_by is None and record.held_by is None
        return record.state in ("pending", "compensating") and due and free and self._apply(Claimed())

    def _send_again(self) -> bool:
        wake_at = self.record.wake_at
        return wake_at is not None and wake_at <= self.clock.now() and self._apply(RetryDue())

    def _supervise(self) -> bool:
        record, now = self.record, self.clock.now()
        recovery, release = self._recovery(), self._release()
        if self._revival is not None and self._revival <= now:
            self._revival = None
            return self._apply(Revived())
        if recovery is not None and recovery <= now and waiting_step(record) is not None:
            return self._apply(Expired(begun=False))
        if recovery is not None and recovery <= now:
            return self._apply(self._agents.inbox.close_all(record))
        if release is not None and release <= now:
            self.record, self._held_until = replace(record, held_by=None), None
            return True
        return False

    def _recovery(self) -> datetime | None:
        """When the supervisor looks at the order after its deadline."""
        complete_by = self.record.complete_by
        return (
            None if complete_by is None else self._scan_after(complete_by + self._settings.supervisor_grace)
        )

    def _release(self) -> datetime | None:
        """When the supervisor finds that what the order is held for is there."""
        if self.record.held_by is None or self._held_until is None:
            return None
        return self._scan_after(self._held_until)

    def _scan_after(self, at: datetime) -> datetime:
        interval = self._settings.supervisor_interval
        return START + -(-(at - START) // interval) * interval

    def _times(self) -> Iterator[datetime]:
        """When something becomes due."""
        record, now = self.record, self.clock.now()
        due = record.not_before if record.locked_by is None and record.held_by is None else None
        for at in (record.wake_at, due, self._recovery(), self._release(), self._revival):
            if at is not None and at > now:
                yield at

    # One decision

    def _apply(self, event: Event) -> bool:
        decision = self._decide(event)
        self.record = decision.record
        self._write(decision)
        return decision.changed

    def _decide(self, event: Event) -> Decision:
        lock = UUID(int=self._chance.getrandbits(128))
        moment = Moment(self.clock.now(), lock, self._chance.random(), self._reason, self._payload)
        try:
            return decide(self.record, self._workflow, event, moment, self._policy)
        except Exception as error:  # noqa: BLE001 - as a scheduler does: the order is set aside, with the error
            cause = type(event).__name__
            problem = f"deciding on {cause} failed: {type(error).__name__}: {error}"
            return set_aside(self.record, problem, moment, self._policy)

    def _reason(self, agent: str, operation: str) -> str | None:
        held = self._hold_reason(agent, operation, self.clock.now())
        if held is None:
            return None
        reason, self._held_until = held
        return reason

    def _write(self, decision: Decision) -> None:
        """The commit, and what leaves after it."""
        self.log.extend(decision.log)
        for send in decision.sends:
            match send:
                case SendRequest(step_no):
                    self._request(send, self._workflow.step(step_no).agent)
                case SendStatus(n):
                    fact = self._fact(n)
                    step = None if fact.step_no is None else self._workflow.step(fact.step_no).name
                    told = _arrived(outgoing.status(fact, step))
                    assert isinstance(told, Status)
                    self.statuses.append(told)
                case SendAlert(kind, n):
                    fact = self._fact(n)
                    account = accounts.for_operators(
                        fact.account, self.record, self._workflow, self._payload.text
                    )
                    alert = _arrived(outgoing.order_alert(kind, fact, account))
                    assert isinstance(alert, Alert)
                    self.alerts.append(alert)
                case _:
                    assert_never(send)
        self._moved.set()

    def _request(self, send: SendRequest, agent: str) -> None:
        calls = self._settings.calls_per_request
        request = _arrived(
            outgoing.request(self.record, self._workflow, send, self._payload.text, self.clock.now(), calls)
        )
        assert isinstance(request, StepExecute | StepCompensate)
        self._agents.post(agent, request)

    def _fact(self, n: int) -> StatusFact:
        return StatusFact.of(self.record, self.log[n - 1])


def _arrived(message: OutMessage) -> object:
    """A message as its receiver reads it."""
    return decode(message.type, message.body)
