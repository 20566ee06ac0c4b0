"""Two agent instances around the inbox of the package: calls that land, are heard, or are lost with their process."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from tests.property.remote import Outcome, Remote, StepKey
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import (
    AgentMessage,
    FailureKind,
    RefusalReason,
    StepFailed,
    StepProgressed,
    StepReply,
    StepSucceeded,
)
from triumvir.contracts.names import Direction, idempotency_key, order_key
from triumvir.testing.inbox import Attempt, Inbox, InboxRow, Known, Refused

CALLS_PER_REQUEST: Final = 2


@dataclass(frozen=True, slots=True)
class Request:
    """What a scheduler sends: as much of it as an agent looks at."""

    no: int
    order_id: str
    step: str
    step_no: int
    operation: str
    direction: Direction
    generation: int
    lock: UUID
    fence: int
    complete_by: datetime
    argument: str | None = None
    allowed: int = CALLS_PER_REQUEST
    asks: bool = False

    @property
    def row_key(self) -> tuple[StepKey, Direction]:
        return (self.no, self.step_no), self.direction

    @property
    def attempt(self) -> Attempt:
        key = self.no, self.step_no, self.direction
        return Attempt(key, self.fence, self.generation, self.complete_by, self.allowed)

    @property
    def idempotency_key(self) -> str:
        return idempotency_key(order_key("shop", self.order_id), self.step, self.direction, self.generation)


@dataclass(slots=True, eq=False)
class Call:
    """One call on its way to the remote service, or (``answer`` set) its answer on the way back."""

    request: Request
    owner: int
    listening: bool = True
    answer: Outcome | None = None
    landed_late: bool = False
    reports: int = 0


@dataclass(slots=True)
class Instance:
    """A process. Its lease may lapse while it lives (it was paused, or cut off)."""

    id: int
    alive: bool = True
    leased: bool = True
    unknown: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply, and whether the broker may lose it: not if only this reply knows of the effect."""

    reply: AgentMessage
    may_be_lost: bool = True


class Fleet:
    """What happens inside the agents. Replies are returned to the world, which delivers them or not."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self.inbox: Inbox[StepReply] = Inbox(self._is_leased)
        self.calls: list[Call] = []
        self.instances = [Instance(1), Instance(2)]
        self._ids = 2

    # A request comes in

    def receive(self, instance: Instance, request: Request, now: datetime) -> Answer | None:
        """Begins the request, or answers it from the inbox, or refuses it, or leaves it to somebody else."""
        if request.asks:
            return self._told(request)
        known = self.inbox.look_up(request.attempt, now)
        if isinstance(known, Known):
            return Answer(_again(known.reply, request))
        if isinstance(known, Refused):
            return Answer(_refused(request, known.reason))
        if known is not None:
            return None
        if request.operation in instance.unknown:
            refused = self.inbox.refuse_unknown(request.attempt)
            return Answer(_refused(request, refused.reason)) if isinstance(refused, Refused) else None
        if request.direction == "undo" and not self.inbox.close_forward(request.attempt, now):
            return None
        row = self.inbox.take(request.attempt, instance.id)
        if row.tries > request.allowed:
            return self._fail(row, request, "transient", "no call left")
        self._call(instance.id, request)
        return None

    def _told(self, request: Request) -> Answer:
        """Nothing is called for what only asks."""
        known = self.inbox.ask(request.attempt)
        if isinstance(known, Known):
            return Answer(_again(known.reply, request))
        if isinstance(known, Refused):
            return Answer(_refused(request, known.reason))
        effect: Literal["none", "unknown"] = "none" if known.state == "fenced" else "unknown"
        head = _head(request, known.calls)
        return Answer(StepFailed(**head, kind="permanent", effect=effect, error="nobody knows"))

    def _call(self, owner: int, request: Request) -> None:
        self.remote.calls[request.row_key] += 1
        self.calls.append(Call(request, owner))

    # A call lands, and is answered

    def land(self, call: Call, outcome: Outcome, now: datetime) -> None:
        """The call reaches the remote service."""
        request = call.request
        step = (request.no, request.step_no)
        call.answer = self.remote.serve(step, request.direction, request.idempotency_key, outcome)
        call.landed_late = now >= request.complete_by
        if not call.listening:
            self.calls.remove(call)

    def hear(self, call: Call, now: datetime, *, again: bool) -> Answer | None:
        """The agent takes the answer, or (none yet) stops waiting; it may call ``again`` within its allowance."""
        request, row = call.request, self.inbox.row(call.request.attempt.key)
        unheard = call.answer in (None, "works-unheard")
        if call.answer is None:
            call.listening = False
        else:
            self.calls.remove(call)
        if call.answer == "works":
            return self._succeed(row, call)
        if row.fence != request.fence or row.state != "running" or row.owner != call.owner:
            return None  # a failure that is no longer this owner's to tell
        if unheard:
            self.inbox.unheard(row)
        if call.answer == "refuses":
            return self._fail(row, request, "permanent", "refused")
        if again and self.inbox.count_call(request.attempt, now) is not None:
            self._call(call.owner, request)
            return None
        return self._fail(row, request, "transient", "unavailable")

    def report(self, call: Call) -> Answer | None:
        """The operation says how far it is, while somebody listens to it."""
        if not self.waits(call) or call.answer is not None:
            return None
        call.reports += 1
        calls = self.inbox.row(call.request.attempt.key).calls
        report = StepProgressed(**_head(call.request, calls), text=f"{call.reports} done", count=call.reports)
        return Answer(report)

    def _succeed(self, row: InboxRow[StepReply], call: Call) -> Answer:
        request = call.request
        reply = StepSucceeded(**_head(request, row.calls), result=JsonText.of({"step": request.step}))
        self.inbox.finish(request.attempt, call.owner, reply, succeeded=True)
        return Answer(reply, may_be_lost=not call.landed_late)

    def _fail(self, row: InboxRow[StepReply], request: Request, kind: FailureKind, error: str) -> Answer:
        effect: Literal["none", "unknown"] = "none" if row.unheard_until is None else "unknown"
        reply = StepFailed(**_head(request, row.calls), kind=kind, effect=effect, error=error)
        row.state, row.reply, row.owner = "failed", reply, None
        return Answer(reply)

    # Instances come and go

    def crash(self, instance: Instance, now: datetime) -> list[Answer]:
        """Kills the process. Its calls may still be on their way until their deadline, and nobody listens.

        What it heard of after the deadline it had told: see ``docs/lifecycle.md`` on what agents owe.
        """
        told: list[Answer | None] = []
        for call in [call for call in self.calls if call.owner == instance.id]:
            if call.landed_late:
                told.append(self.hear(call, now, again=False))
            elif call.answer is not None or call.request.complete_by <= now:
                self.calls.remove(call)
            call.listening = False
        instance.alive = instance.leased = False
        return [answer for answer in told if answer is not None]

    def restart(self, instance: Instance) -> None:
        """A new process in its place, with an id and a lease of its own."""
        self._ids += 1
        self.instances[self.instances.index(instance)] = Instance(self._ids, unknown=set(instance.unknown))

    def waits(self, call: Call) -> bool:
        """Whether a live process listens for the answer."""
        alive = any(instance.alive for instance in self.instances if instance.id == call.owner)
        return call.listening and alive

    def _is_leased(self, owner: int) -> bool:
        return any(i.id == owner and i.alive and i.leased for i in self.instances)


def _again(reply: StepReply, request: Request) -> StepReply:
    return reply.model_copy(update={"lock": request.lock, "fence": request.fence})


def _head(request: Request, calls: int) -> dict[str, object]:
    return {
        "order_no": request.no,
        "client": "shop",
        "order_id": request.order_id,
        "step": request.step,
        "step_no": request.step_no,
        "direction": request.direction,
        "lock": request.lock,
        "fence": request.fence,
        "calls": calls,
    }


def _refused(request: Request, reason: RefusalReason) -> StepReply:
    return StepFailed(**_head(request, 0), kind="refused", effect="none", error=reason, reason=reason)
