"""A small world, whole: one order, every move that is possible in it, and what must hold wherever they lead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, get_args

from tests.property.audited import WrittenRemote, findings_of
from tests.property.fleet import CALLS_PER_REQUEST, Request
from tests.property.likeness import copied, likeness
from tests.property.remote import Outcome
from tests.property.rules import Rules, Traits, fate
from tests.property.settle import check_calls, check_rest
from tests.property.signals import check_first_counts
from tests.property.world import Posted, World, workflow_of
from triumvir.contracts.messages import StepProgressed
from triumvir.lifecycle import LIVE, PAUSED, RESTING, Action, Policy
from triumvir.workflow import OnError, UndoOrder

POLICY: Final = Policy(
    step_timeout=timedelta(seconds=10),
    retry_interval=timedelta(seconds=4),
    max_retries=1,
    jitter_factor=0,
    max_failures=1,
    calls_per_request=CALLS_PER_REQUEST,
    reopen_backoff=timedelta(seconds=1),
    reopen_backoff_max=timedelta(seconds=1),
)
"""Two attempts of a step, each request sent twice, and a wait that does not grow."""

Fault = str
Budget = tuple[tuple[Fault, int], ...]
Play = Callable[[World], None]


@dataclass(frozen=True, slots=True)
class Scope:
    """How far the world goes: its workflow, and how often each fault may happen, and all of them together."""

    steps: int
    on_error: OnError
    faults: Mapping[Fault, int]
    together: int
    undo_order: UndoOrder = "reverse"
    traits: Traits = field(default_factory=dict)
    rules: Rules = field(default_factory=dict)

    def world(self) -> World:
        """The order is received, and nothing has happened yet."""
        workflow = workflow_of(
            self.steps, self.on_error, rules=self.rules, undo_order=self.undo_order, traits=self.traits
        )
        world = World(workflow, POLICY, orders=1, rules=self.rules)
        world.remote = world.fleet.remote = WrittenRemote()
        return world


@dataclass(frozen=True, slots=True)
class Move:
    """Something that may happen next. ``fault``: what it costs; None is what happens where all goes well."""

    name: str
    play: Play
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class State:
    """A world, and what may still go wrong in it."""

    world: World
    left: Mapping[Fault, int]
    together: int

    @property
    def key(self) -> bytes:
        return likeness(self.world) + repr((sorted(self.left.items()), self.together)).encode()

    def after(self, move: Move) -> State:
        """The state that the move leads to; raises AssertionError where a decision on the way was wrong."""
        world = copied(self.world)
        world.story = []
        move.play(world)
        _check(world)
        if move.fault is None:
            return State(world, self.left, self.together)
        left = {**self.left, move.fault: self.left[move.fault] - 1}
        return State(world, left if self.together > 1 else dict.fromkeys(left, 0), self.together - 1)

    def moves(self) -> list[Move]:
        """Every move that is possible here. Without one that costs nothing, the order is at rest."""
        free = [*_free(self.world)]
        times = [*_times(self.world, "slow" if free else None)]
        return [
            move
            for move in (*free, *times, *_faults(self.world))
            if move.fault is None or self.left.get(move.fault, 0) > 0
        ]


def start(scope: Scope) -> State:
    """The first state."""
    left = scope.faults if scope.together else dict.fromkeys(scope.faults, 0)
    return State(scope.world(), dict(left), scope.together)


def _check(world: World) -> None:
    """What holds everywhere, at rest or not."""
    (order,) = world.orders
    check_calls(world, order)
    assert all(net in (0, 1) for net in world.remote.net.values()), "an effect was doubled"
    for step_no in _waits(world):
        check_first_counts(order.record, order.log, step_no)


def _waits(world: World) -> list[int]:
    """The steps that wait for a signal."""
    return [step_no for step_no in world.rules if fate(world.rules, step_no) == "waits"]


def check_at_rest(world: World) -> None:
    """Nothing happens any more by itself: an end, or a rest with an alert, and the auditor finds nothing."""
    (order,) = world.orders
    check_rest(world, order)
    found = findings_of(world, POLICY)
    assert not found, [str(finding) for finding in found]


# Where all goes well


def _free(world: World) -> Iterator[Move]:
    (order,) = world.orders
    record, now = order.record, world.now
    due = record.not_before is None or record.not_before <= now
    if record.state in ("pending", "compensating") and not record.locked_by and not record.held_by and due:
        yield Move("claim", lambda w: _done(w.claim(w.orders[0])))
    if record.wake_at is not None and record.wake_at <= now:
        yield Move("timer", lambda w: _done(w.timer(w.orders[0])))
    if record.complete_by is not None and record.complete_by <= now:
        yield Move("supervisor", lambda w: _done(w.supervise(w.orders[0])))
    if record.paused_at is not None:
        yield Move("an operator: unpause", lambda w: w.operate(w.orders[0], "unpause"))
    if record.held_by not in (None, PAUSED):
        yield Move("release", lambda w: _done(w.release(w.orders[0])))
    if world.absent or any(instance.unknown for instance in world.fleet.instances):
        yield Move("every operation is offered", _offer_all)
    for n in _distinct(world):
        for agent in _agents(world, n):
            yield Move(f"message {n} arrives at {agent}", _deliver(n, agent))
    for n, call in enumerate(world.fleet.calls):
        if world.fleet.waits(call) and call.answer is None:
            yield Move(f"call {n} works", _land(n, "works"))
        elif world.fleet.waits(call):
            yield Move(f"answer of call {n} is heard", _hear(n, again=True))


def _done(moved: bool) -> None:
    assert moved, "was due, and changed nothing"


def _offer_all(world: World) -> None:
    world.absent.clear()
    for instance in world.fleet.instances:
        instance.unknown.clear()


def _distinct(world: World) -> list[int]:
    """Of equal messages under way, one."""
    seen = {repr(posted.body): n for n, posted in reversed([*enumerate(world.bag)])}
    return sorted(seen.values())


def _agents(world: World, n: int) -> list[int]:
    """Who may get a message. While nothing tells the two agents apart, the first."""
    if not isinstance(world.bag[n].body, Request):
        return [0]
    one, two = world.fleet.instances
    alike = (one.leased, one.unknown) == (two.leased, two.unknown)
    owners = {call.owner for call in world.fleet.calls} | {
        row.owner for row in world.fleet.inbox.rows.values()
    }
    return [0] if alike and not owners & {one.id, two.id} else [0, 1]


def _deliver(n: int, agent: int, *, keep: bool = False) -> Play:
    return lambda world: world.deliver(world.bag[n], world.fleet.instances[agent], keep=keep)


def _land(n: int, outcome: Outcome) -> Play:
    return lambda world: world.land(world.fleet.calls[n], outcome)


def _hear(n: int, *, again: bool) -> Play:
    return lambda world: world.hear(world.fleet.calls[n], again=again)


# Time


def _times(world: World, fault: Fault | None) -> Iterator[Move]:
    """To the next instant at which something becomes due. While anything is ready, that is a fault: it was slow."""
    instant = min(_instants(world), default=None)
    if instant is None:
        return
    by = instant - world.now
    outcomes: list[Outcome | None] = [None]
    if any(not world.fleet.waits(call) and call.answer is None for call in world.fleet.calls):
        outcomes.append("works")
    for outcome in outcomes:
        heard = " and what nobody listens to works" if outcome else ""
        yield Move(f"{by.total_seconds():g} s pass{heard}", lambda w, o=outcome: w.advance(by, o), fault)  # type: ignore[misc]


def _instants(world: World) -> list[datetime]:
    calls = [call.request.complete_by for call in world.fleet.calls if not world.fleet.waits(call)]
    return [*world.next_times(), *(instant for instant in calls if instant > world.now)]


# What goes wrong


def _faults(world: World) -> Iterator[Move]:
    (order,) = world.orders
    for n in _distinct(world):
        if world.bag[n].may_be_lost:
            yield Move(f"message {n} is lost", _lose(n), "lost")
        for agent in _agents(world, n):
            yield Move(
                f"message {n} arrives at {agent}, not for the last time",
                _deliver(n, agent, keep=True),
                "doubled",
            )
    yield from _call_faults(world)
    yield from _agent_faults(world)
    if order.record.state not in ("processed", "compensated", "cancelled", "closed"):
        yield Move("cancel", lambda w: w.cancel(w.orders[0]), "cancel")
    if order.record.state in RESTING:
        for action in (each for each in get_args(Action) if each not in ("pause", "unpause")):
            yield Move(f"an operator: {action}", lambda w, a=action: w.operate(w.orders[0], a), "operator")  # type: ignore[misc]
    elif order.record.paused_at is None and order.record.state in LIVE:
        yield Move("an operator: pause", lambda w: w.operate(w.orders[0], "pause"), "operator")
    for step_no in _waits(world):  # before its step is reached, while it waits, once more, or too late
        yield Move(f"the signal of step {step_no}", lambda w, n=step_no: w.signal(w.orders[0], n), "signal")  # type: ignore[misc]
    if order.record.state in ("pending", "processing", "compensating"):
        yield Move("deciding fails", lambda w: w.break_(w.orders[0]), "broken")


def _lose(n: int) -> Play:
    """A reply is lost with its agent, before the request is acknowledged: the broker hands that out again."""

    def play(world: World) -> None:
        body = world.bag[n].body
        world.lose(world.bag[n])
        if not isinstance(body, Request | StepProgressed):
            attempt = (body.lock, body.step_no, body.direction)
            world.bag += [Posted(r) for r in world.requests if (r.lock, r.step_no, r.direction) == attempt]

    return play


def _call_faults(world: World) -> Iterator[Move]:
    for n, call in enumerate(world.fleet.calls):
        if not world.fleet.waits(call):
            continue
        if call.answer is None:
            for outcome in ("works-unheard", "refuses", "busy"):
                yield Move(f"call {n}: {outcome}", _land(n, outcome), "outcome")
            yield Move(f"call {n} is given up", _hear(n, again=False), "outcome")
            yield Move(f"call {n} is given up and made again", _hear(n, again=True), "outcome")
            yield Move(f"call {n} says how far it is", lambda w, n=n: w.report(w.fleet.calls[n]), "report")  # type: ignore[misc]
        else:
            yield Move(f"answer of call {n} is heard, it was the last", _hear(n, again=False), "outcome")


def _agent_faults(world: World) -> Iterator[Move]:
    for n, instance in enumerate(world.fleet.instances):
        if any(call.owner == instance.id for call in world.fleet.calls):
            yield Move(f"agent {n} is killed", lambda w, n=n: w.crash(w.fleet.instances[n]), "crash")  # type: ignore[misc]
            if instance.leased:
                yield Move(f"the lease of agent {n} lapses", lambda w, n=n: _lapse(w, n), "lapse")  # type: ignore[misc]
    operation = world.operation(world.orders[0])
    if not operation:  # a wait needs nobody
        return
    if operation not in world.absent:
        yield Move(f"{operation} is offered by nobody", lambda w: w.absent.add(operation), "absent")
    if operation not in world.fleet.instances[0].unknown:
        yield Move(
            f"{operation} is unknown to agent 0",
            lambda w: w.fleet.instances[0].unknown.add(operation),
            "absent",
        )


def _lapse(world: World, n: int) -> None:
    world.fleet.instances[n].leased = False
