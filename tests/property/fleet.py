"""Two agent instances and their inbox, after the rules of the protocol: begin, call, finish, refuse."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from tests.property.remote import Outcome, Remote, StepKey
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import FailureKind, RefusalReason, StepFailed, StepReply, StepSucceeded
from triumvir.contracts.names import Direction, idempotency_key, order_key

EVERY_FENCE: Final = 2**63 - 1
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

    @property
    def row_key(self) -> tuple[StepKey, Direction]:
        return (self.no, self.step_no), self.direction

    @property
    def idempotency_key(self) -> str:
        return idempotency_key(order_key("shop", self.order_id), self.step, self.direction, self.generation)


@dataclass(slots=True)
class Row:
    """An inbox row. ``unheard_until``: until then a call that nobody listens to may still take effect."""

    fence: int = 0
    generation: int = 0
    owner: int | None = None
    complete_by: datetime | None = None
    state: Literal["running", "succeeded", "failed", "fenced"] = "fenced"
    calls: int = 0
    calls_of_fence: int = 0
    reply: StepReply | None = None
    refuse_upto: int = 0
    unheard_until: datetime | None = None

    def may_take_effect(self, now: datetime) -> bool:
        """Whether a call of this row may still be on its way."""
        running = self.state == "running" and self.complete_by is not None and self.complete_by > now
        return running or (self.unheard_until is not None and self.unheard_until > now)


@dataclass(slots=True, eq=False)
class Call:
    """One call on its way to the remote service, or (``answer`` set) its answer on the way back."""

    request: Request
    owner: int
    listening: bool = True
    answer: Outcome | None = None
    landed_late: bool = False


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

    reply: StepReply
    may_be_lost: bool = True


class Fleet:
    """What happens inside the agents. Replies are returned to the world, which delivers them or not."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self.rows: dict[tuple[StepKey, Direction], Row] = {}
        self.calls: list[Call] = []
        self.instances = [Instance(1), Instance(2)]
        self._ids = 2

    # A request comes in

    def receive(self, instance: Instance, request: Request, now: datetime) -> Answer | None:
        """Begins the request, or answers it from the inbox, or refuses it, or leaves it to somebody else."""
        row = self.rows.setdefault(request.row_key, Row())
        if row.state == "succeeded" and row.generation == request.generation:
            return Answer(self._again(row, request))
        if request.fence <= row.refuse_upto or request.fence < row.fence:
            return Answer(_refused(request, "stale"))
        if request.complete_by <= now:
            return Answer(_refused(request, "no_time"))
        if row.fence == request.fence and row.generation == request.generation:
            if row.state == "failed":
                return Answer(self._again(row, request))
            if row.state == "running" and self._has_live_owner(row):
                return None
        if request.operation in instance.unknown:
            return self._refuse_unknown(row, request)
        if request.direction == "undo" and not self._close_forward(request, now):
            return None
        return self._take(row, instance, request)

    @staticmethod
    def _refuse_unknown(row: Row, request: Request) -> Answer | None:
        """A refusal asserts that nothing was and nothing will be called under this fence, by any instance."""
        if row.fence == request.fence:
            return None
        row.refuse_upto = request.fence
        return Answer(_refused(request, "unknown_operation"))

    def _close_forward(self, request: Request, now: datetime) -> bool:
        forward = self.rows.setdefault(((request.no, request.step_no), "do"), Row())
        if forward.may_take_effect(now):
            return False
        forward.refuse_upto = EVERY_FENCE
        return True

    def _take(self, row: Row, instance: Instance, request: Request) -> Answer | None:
        if row.state == "running":
            self._unheard(row)
        row.calls_of_fence = row.calls_of_fence if row.fence == request.fence else 0
        row.fence, row.generation, row.complete_by = request.fence, request.generation, request.complete_by
        row.state, row.owner, row.reply = "running", instance.id, None
        if row.calls_of_fence >= CALLS_PER_REQUEST:
            return self._fail(row, request, "transient", "no call left")
        self._call(row, instance.id, request)
        return None

    def _call(self, row: Row, owner: int, request: Request) -> None:
        row.calls += 1
        row.calls_of_fence += 1
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
        request, row = call.request, self.rows[call.request.row_key]
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
            self._unheard(row)
        if call.answer == "refuses":
            return self._fail(row, request, "permanent", "refused")
        if again and row.calls_of_fence < CALLS_PER_REQUEST and request.complete_by > now:
            self._call(row, call.owner, request)
            return None
        return self._fail(row, request, "transient", "unavailable")

    def _succeed(self, row: Row, call: Call) -> Answer:
        request = call.request
        reply = StepSucceeded(**_head(request, row.calls), result=JsonText.of({"step": request.step}))
        if row.fence == request.fence and row.generation == request.generation and row.state == "running":
            row.state, row.reply, row.owner = "succeeded", reply, None
        return Answer(reply, may_be_lost=not call.landed_late)

    def _fail(self, row: Row, request: Request, kind: FailureKind, error: str) -> Answer:
        effect: Literal["none", "unknown"] = "none" if row.unheard_until is None else "unknown"
        reply = StepFailed(**_head(request, row.calls), kind=kind, effect=effect, error=error)
        row.state, row.reply, row.owner = "failed", reply, None
        return Answer(reply)

    @staticmethod
    def _unheard(row: Row) -> None:
        assert row.complete_by is not None
        row.unheard_until = max(row.unheard_until or row.complete_by, row.complete_by)

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

    def close_expired(self, key: tuple[StepKey, Direction], fence: int) -> tuple[bool, int]:
        """The supervisor's write: nobody may begin under this fence any more. Was it begun; calls so far."""
        row = self.rows.setdefault(key, Row())
        row.refuse_upto = max(row.refuse_upto, fence)
        return row.fence == fence and row.state != "fenced", row.calls

    def fence_off(self, key: tuple[StepKey, Direction], fence: int, now: datetime) -> bool:
        """A scheduler's write before an operator's hand: nobody may begin any more, neither what is undone by hand
        nor its undo. May a call still take effect?
        """
        step, direction = key
        upto = fence if direction == "do" else EVERY_FENCE
        rows = [self._fenced_upto((step, "do"), upto)]
        if direction == "undo":
            rows.append(self._fenced_upto(key, fence))
        return any(row.may_take_effect(now) for row in rows)

    def _fenced_upto(self, key: tuple[StepKey, Direction], fence: int) -> Row:
        row = self.rows.setdefault(key, Row())
        row.refuse_upto = max(row.refuse_upto, fence)
        return row

    def _has_live_owner(self, row: Row) -> bool:
        return any(i.id == row.owner and i.alive and i.leased for i in self.instances)

    @staticmethod
    def _again(row: Row, request: Request) -> StepReply:
        assert row.reply is not None
        return row.reply.model_copy(update={"lock": request.lock, "fence": request.fence})


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
