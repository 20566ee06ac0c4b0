"""A whole world in memory around ``decide``: orders, a bag of messages, agents, a remote service, one clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import structs

from tests.property import checks
from tests.property.fleet import Answer, Call, Fleet, Instance, Request
from tests.property.remote import Outcome, Remote
from tests.property.rules import PAYLOAD, Rules, Traits, fate, members, selected, trait_members
from tests.property.signals import check_answered, default_of, signal_for, signal_name
from tests.property.story import sentence
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import AgentMessage
from triumvir.contracts.names import Direction
from triumvir.lifecycle import (
    PAUSED,
    RESTING,
    Action,
    Aged,
    AgedKind,
    Broken,
    CancelRequested,
    Claimed,
    Decision,
    Event,
    Expired,
    LogRow,
    Moment,
    OperatorAsked,
    OrderRecord,
    Policy,
    Replied,
    RetryDue,
    SendAlert,
    SendRequest,
    Signalled,
    decide,
    waiting_step,
)
from triumvir.workflow import OnError, Stage, Step, UndoOrder, Wait, Workflow

RANKS: Final = {1: 1, 2: 1, 3: 2}
START: Final = datetime(2030, 1, 1, tzinfo=UTC)
WITHIN: Final = timedelta(seconds=15)
"""A wait takes so long at most."""
Decide = Callable[[OrderRecord, Workflow, Event, Moment, Policy], Decision]


def workflow_of(
    steps: int,
    on_error: OnError,
    *,
    keeps: int | None = None,
    rules: Rules | None = None,
    undo_order: UndoOrder = "reverse",
    traits: Traits | None = None,
) -> Workflow:
    """``steps`` steps of one agent; the one at ``keeps`` declares no undo. By rank: s1 and s2 go together, s3 last."""
    made: list[Stage] = []
    for n in range(1, steps + 1):
        rule = (rules or {}).get(n)
        if rule in ("waits", "waits-or-fails"):
            default = default_of(n) if rule == "waits" else None
            made.append(Wait(f"s{n}", signal=signal_name(n), within=WITHIN, default=default))
            continue
        undo = None if n == keeps else f"undo-{n}"
        rank = RANKS[n] if undo is not None and undo_order == "by-rank" else None
        more = members(rule, n) | trait_members((traits or {}).get(n), n, steps)
        made.append(Step(f"s{n}", agent="a", operation=f"do-{n}", undo=undo, undo_rank=rank, **more))
    return Workflow("w", 1, made, on_error, undo_order)


@dataclass(slots=True, eq=False)
class Posted:
    """A message under way; ``may_be_lost`` as the broker or a crash may lose it."""

    body: Request | AgentMessage
    may_be_lost: bool = True


@dataclass(slots=True)
class Order:
    """An order's row, its log, and what the operators were told of it."""

    record: OrderRecord
    log: list[LogRow] = field(default_factory=list)
    alerts: Counter[str] = field(default_factory=Counter)
    told: dict[AgedKind, int] = field(default_factory=dict)
    grants: int = 0
    """Moves of operators that let failures be counted anew."""


class World:
    """Every method is one thing that may happen, at any time and in any order."""

    def __init__(
        self,
        workflow: Workflow,
        policy: Policy,
        orders: int,
        decide: Decide = decide,
        rules: Rules | None = None,
    ) -> None:
        self.workflow = workflow
        self.rules = rules or {}
        self.policy = policy
        self.decide = decide
        self.now = START
        self.remote = Remote()
        self.fleet = Fleet(self.remote)
        self.bag: list[Posted] = []
        self.absent: set[str] = set()
        self.paused = False
        self.completions: Counter[tuple[int, int]] = Counter()
        self.story: list[str | tuple[int, Event, Decision]] = []
        self.sound = True
        self._locks = 0
        self._requests: dict[tuple[int, int, Direction, int], Request] = {}
        self.orders = [self._accepted(no) for no in range(1, orders + 1)]

    def _accepted(self, no: int) -> Order:
        record = OrderRecord(
            no,
            "shop",
            f"o{no}",
            self.workflow.name,
            self.workflow.version,
            sequence=1,
            history=1,
            progress=True,
        )
        return Order(record, [LogRow(1, self.now, "pending", "pending", "received", None, "received", 1)])

    # One decision

    def apply(self, order: Order, event: Event) -> bool:
        """Folds one event and commits; True if anything changed."""
        before = order.record
        decision = self._decided(before, event)
        order.record = decision.record
        self.story.append((before.no, event, decision))
        self.sound = False
        checks.check_decision(before, decision, self.workflow)
        checks.check_event(before, event, decision.record, self.now, self.workflow)
        if not _may_come_again(event, order.record):
            checks.check_repeated(order.record, self._decided(order.record, event))
        if isinstance(event, Signalled):
            check_answered(event, decision.log)
        self._count_completions(before, order.record)
        self.sound = True
        order.log.extend(decision.log)
        for send in decision.sends:
            if isinstance(send, SendRequest):
                self._send(order.record, send)
            elif isinstance(send, SendAlert):
                order.alerts[send.kind] += 1
        return decision.changed

    def _decided(self, record: OrderRecord, event: Event) -> Decision:
        self._locks += 1
        moment = Moment(
            self.now, UUID(int=self._locks), 0.5, self._hold_reason, PAYLOAD, paused=self._paused()
        )
        return self.decide(record, self.workflow, event, moment, self.policy)

    def _paused(self) -> str | None:
        return "pause:workflow:w" if self.paused else None

    def _hold_reason(self, agent: str, operation: str) -> str | None:
        return f"operation:{agent}/{operation}" if operation in self.absent else None

    def _count_completions(self, before: OrderRecord, after: OrderRecord) -> None:
        for step in after.steps:
            was = before.step_record(step.step_no)
            if step.state == "completed" and (was is None or was.state != "completed"):
                self.completions[after.no, step.step_no] += 1
                assert self.completions[after.no, step.step_no] == 1, "completed twice"

    def _send(self, record: OrderRecord, send: SendRequest) -> None:
        request = self._request(record, send)
        name = (record.no, send.step_no, send.direction, record.attempt)
        first = self._requests.setdefault(name, request)
        assert replace(first, complete_by=request.complete_by) == request, "two requests of one name"
        assert (first is request) == (send.retry == 0), "one request, sent for the first time once"
        assert fate(self.rules, send.step_no) == "runs", "a step that may not run was sent"
        assert request.argument == selected(self.rules, send.step_no, record.order_id), (
            "selects something else"
        )
        self.bag.append(Posted(request))

    def _request(self, record: OrderRecord, send: SendRequest) -> Request:
        step, entry = self.workflow.step(send.step_no), record.step_record(send.step_no)
        out = record.request_under_way(send.step_no, send.direction)
        assert record.locked_by is not None
        assert out is not None, "sent, and not waited for"
        assert entry is not None
        do = send.direction == "do"
        return Request(
            no=record.no,
            order_id=record.order_id,
            step=step.name,
            step_no=send.step_no,
            operation=step.operation if do else step.undo or "",
            direction=send.direction,
            generation=entry.generation if do else entry.undo_generation,
            lock=record.locked_by,
            fence=send.fence,
            complete_by=out.complete_by,
            argument=send.argument.text if send.argument else None,
            allowed=entry.allowed(send.direction) or 0,
            asks=do and entry.asking,
        )

    @property
    def requests(self) -> list[Request]:
        """Every request that was ever sent, once."""
        return list(self._requests.values())

    # What schedulers, the supervisor and the client do

    def claim(self, order: Order) -> bool:
        """A scheduler's claim: live, due, not locked, not held."""
        record = order.record
        due = record.not_before is None or record.not_before <= self.now
        free = record.locked_by is None and record.held_by is None
        if record.state in ("pending", "compensating") and due and free:
            return self.apply(order, Claimed())
        return False

    def timer(self, order: Order) -> bool:
        """A scheduler's timer."""
        due = order.record.wake_at is not None and order.record.wake_at <= self.now
        return due and self.apply(order, RetryDue())

    def supervise(self, order: Order) -> bool:
        """The supervisor's scan: an expired attempt, after its write to the inbox."""
        record = order.record
        if record.complete_by is None or record.complete_by > self.now:
            return False
        if waiting_step(record) is not None:
            return self.apply(order, Expired(begun=False))
        return self.apply(order, self.fleet.inbox.close_all(record))

    def release(self, order: Order) -> bool:
        """A released hold; no decision is needed for it. Nobody releases an order that an operator paused."""
        if order.record.held_by in (None, PAUSED):
            return False
        order.record = structs.replace(order.record, held_by=None)
        return True

    def age(self, order: Order) -> bool:
        """A supervisor sees the order wait; it tells of it once an attempt."""
        waits: AgedKind = "unclaimed" if order.record.held_by is None else "held"
        if order.record.locked_by is not None or order.told.get(waits) == order.record.attempt:
            return False
        order.told[waits] = order.record.attempt
        return self.apply(order, Aged(waits, 600))

    def cancel(self, order: Order) -> None:
        """The client's cancel."""
        self.apply(order, CancelRequested("changed my mind"))

    def signal(self, order: Order, step_no: int) -> None:
        """The signal for a step, whether it waits for one or not."""
        self.apply(order, signal_for(step_no))

    def operate(self, order: Order, action: Action) -> None:
        """An operator's move, upon the order as it is. What is skipped the operator does by hand, if it was not done;
        while a call is under way, or what would come of it nobody can say, an operator skips nothing.
        """
        record = order.record
        step = record.step or 0
        direction: Direction = "undo" if record.state == "compensation_failed" else "do"
        key = ((record.no, step), direction)
        skips = action == "skip" and record.state in RESTING and record.step is not None
        if skips and (
            fate(self.rules, step) != "runs"
            or any(call.request.row_key[0] == key[0] for call in self.fleet.calls)
        ):
            return
        under_way = skips and self.fleet.inbox.fence_off((*key[0], direction), record.fence, self.now)
        result = JsonText.of({"step": f"s{step}"}).text
        asked = OperatorAsked(action, "an operator", None, record.fence, result, under_way)
        if self.apply(order, asked) and order.record.state != record.state:
            order.grants += 1
            if skips:
                self.remote.by_hand(*key)

    def break_(self, order: Order) -> None:
        """Deciding or writing the order failed."""
        self.apply(order, Broken("a fault in the scheduler"))

    # What the broker and the agents do

    def deliver(self, posted: Posted, instance: Instance, *, keep: bool = False) -> None:
        """Hands a message to its consumer; ``keep``: it will come again."""
        if not keep:
            self.bag.remove(posted)
        if isinstance(posted.body, Request):
            self._tell(f"{posted.body.direction} {posted.body.step} reaches agent {instance.id}")
            self.post(self.fleet.receive(instance, posted.body, self.now))
        else:
            order = self.orders[posted.body.order_no - 1]
            self.apply(order, Replied(posted.body))

    def lose(self, posted: Posted) -> None:
        """A message vanishes: its sender died before it was out."""
        if posted.may_be_lost:
            self._tell(f"lost: {posted.body}")
            self.bag.remove(posted)

    def post(self, answer: Answer | None) -> None:
        """An agent publishes."""
        if answer is not None:
            self.bag.append(Posted(answer.reply, answer.may_be_lost))

    def report(self, call: Call) -> None:
        """An operation at work says how far it is."""
        self.post(self.fleet.report(call))

    def land(self, call: Call, outcome: Outcome) -> None:
        """A call reaches the remote service: before its deadline, or later if its agent still listens."""
        if call.answer is None and (self.now < call.request.complete_by or self.fleet.waits(call)):
            if self.now >= call.request.complete_by and outcome == "works-unheard":
                outcome = "works"  # what lands so late is heard of: see docs/lifecycle.md on what agents owe
            self._tell(f"{call.request.direction} {call.request.step} lands: {outcome}")
            self.fleet.land(call, outcome, self.now)

    def hear(self, call: Call, *, again: bool) -> None:
        """Its agent takes the answer, or stops waiting for one."""
        if self.fleet.waits(call):
            late = self.now >= call.request.complete_by
            self._tell(
                f"agent {call.owner} hears {call.answer} of {call.request.direction} {call.request.step}"
            )
            self.post(self.fleet.hear(call, self.now, again=again))
            if late and call.answer is None:
                self.fleet.calls.remove(call)

    def crash(self, instance: Instance) -> None:
        """An agent is killed; the broker hands its requests out again."""
        self._tell(f"agent {instance.id} is killed")
        unacked = [call.request for call in self.fleet.calls if call.owner == instance.id]
        for answer in self.fleet.crash(instance, self.now):
            self.post(answer)
        self.fleet.restart(instance)
        self.bag.extend(Posted(request) for request in unacked)

    def advance(self, by: timedelta, unheard: Outcome | None = None) -> None:
        """Time passes. Calls that nobody listens to land (``unheard``) or vanish by their deadline."""
        self.now += by
        self._tell(f"it is {(self.now - START).total_seconds():.3f} s")
        for call in [call for call in self.fleet.calls if not self.fleet.waits(call)]:
            if call.request.complete_by <= self.now:
                if unheard is not None and call.answer is None:
                    self.fleet.land(call, unheard, call.request.complete_by - timedelta(microseconds=1))
                else:
                    self.fleet.calls.remove(call)

    def operation(self, order: Order) -> str:
        """What the order needs now."""
        step = self.workflow.step(order.record.step or 1)
        return step.operation if order.record.direction == "do" else step.undo or step.operation

    def next_times(self) -> list[datetime]:
        """The instants at which something becomes due, soonest first."""
        records = [order.record for order in self.orders]
        times = [
            t for r in records for t in (r.wake_at, r.complete_by, r.not_before if not r.locked_by else None)
        ] + [out.complete_by for r in records for out in r.under_way]
        return sorted(t for t in times if t is not None and t > self.now)

    def _tell(self, line: str) -> None:
        self.story.append(line)

    def told(self) -> str:
        """The story so far, to be read by people."""
        return "\n".join(line if isinstance(line, str) else sentence(*line) for line in self.story)


def _may_come_again(event: Event, record: OrderRecord) -> bool:
    """A second cancel is answered, a next retry may be due, and an order that a claim gave up is claimed again."""
    given_up = record.state == "compensating" and record.locked_by is None
    return isinstance(event, Aged | CancelRequested | RetryDue | OperatorAsked | Signalled) or (
        isinstance(event, Claimed) and given_up
    )
