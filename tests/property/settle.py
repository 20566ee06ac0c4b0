"""Lets a world run until nothing moves any more, and looks at what is left."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from tests.property import checks
from tests.property.fleet import CALLS_PER_REQUEST, Call
from tests.property.remote import Outcome
from tests.property.rules import course, fate
from tests.property.signals import check_first_counts
from tests.property.world import Order, World
from triumvir.contracts.names import Direction
from triumvir.lifecycle import END, RESTING

_ROUNDS: Final = 500


Moods = Mapping[tuple[int, Direction], Outcome]
"""How the remote service answers a step and direction for good; ``works`` where nothing is said."""


def settle(world: World, moods: Moods, *, zombies_last: bool = False) -> None:
    """Every process is back and the network is kind. ``zombies_last``: calls that are under way now, and that a
    live process listens to, land only once all else is quiet.
    """
    _heal(world)
    zombies = {call for call in world.fleet.calls if zombies_last and world.fleet.waits(call)}
    for _ in range(_ROUNDS):
        if _work(world, moods, zombies):
            continue
        times = world.next_times()
        if times:
            world.advance(times[0] - world.now, "works")
        elif zombies:
            zombies.clear()
        else:
            break
    else:
        raise AssertionError("the world never comes to rest")
    for order in world.orders:
        check_rest(world, order)


def _heal(world: World) -> None:
    world.absent.clear()
    world.paused = False
    for order in world.orders:
        if order.record.paused_at is not None:
            world.operate(order, "unpause")
    for instance in world.fleet.instances:
        instance.unknown.clear()
        instance.leased = True


def _work(world: World, moods: Moods, zombies: Collection[Call]) -> bool:
    moved = bool(world.bag)
    for n, posted in enumerate(list(world.bag)):
        world.deliver(posted, world.fleet.instances[n % 2])
    for call in list(world.fleet.calls):
        if call not in zombies and world.fleet.waits(call):
            world.land(call, moods.get((call.request.step_no, call.request.direction), "works"))
            world.hear(call, again=True)
            moved = True
    for order in world.orders:
        moves = [world.release(order), world.claim(order), world.timer(order), world.supervise(order)]
        moved = any(moves) or moved
    return moved


def check_rest(world: World, order: Order) -> None:
    """An order at rest: where it may rest, told, bounded, and its effects exactly what its state says."""
    record = order.record
    checks.check_history(record, order.log)
    assert record.state in END | RESTING, f"lost: {record.state}"
    if record.state == "error":
        assert order.alerts["order-halted"]
    if record.state == "compensation_failed":
        assert order.alerts["compensation-failed"]
    check_calls(world, order)
    for step_no in range(1, len(world.workflow.steps) + 1):
        _check_effect(world, order, step_no)
        if fate(world.rules, step_no) == "waits":
            check_first_counts(record, order.log, step_no)


def check_calls(world: World, order: Order) -> None:
    """The bound of calls that follows from ``failure_count``, for each step and for each of its undos."""
    failures = world.policy.max_failures + len(world.policy.cool_offs)
    attempts = (failures + 1) * (order.grants + 1)
    for step in order.record.steps:
        key = (order.record.no, step.step_no)
        once = not world.workflow.step(step.step_no).recoverable
        most = order.grants + 1 if once else CALLS_PER_REQUEST * attempts
        assert world.remote.calls[key, "do"] <= most
        undos = (step.undo_generation + 1) * attempts
        assert world.remote.calls[key, "undo"] <= CALLS_PER_REQUEST * undos
    _check_budget(world, order)


def _check_budget(world: World, order: Order) -> None:
    """No more calls than were granted, and no more granted than by the first dispatch and the operators."""
    record, policy, calls = order.record, world.policy, world.remote.calls
    beyond = sum(max(0, calls[(record.no, step.step_no), "do"] - 1) for step in record.steps)
    assert beyond <= (record.budget or 0), "more calls than the retry budget"
    assert (record.budget or 0) <= policy.retry_budget * (order.grants + 1) + order.grants, "granted too much"
    for step in record.steps:
        undos = calls[(record.no, step.step_no), "undo"]
        assert undos <= (step.undo_limit or step.undo_calls), "more calls than the budget of the undo"
        runs = step.undo_generation + 1 + order.grants
        assert (step.undo_limit or 0) <= runs * (policy.undo_retry_budget + 1), "an undo was granted too much"


def _check_effect(world: World, order: Order, step_no: int) -> None:
    record, net = order.record, world.remote.net[order.record.no, step_no]
    step, undoable = record.step_record(step_no), world.workflow.step(step_no).undo is not None
    assert net in (0, 1), "an effect was doubled"
    destined = fate(world.rules, step_no)
    if step_no not in course(record, world.workflow):
        assert step is None, f"step {step_no} is not on the way of the order, and has a record"
        assert not world.remote.calls[(record.no, step_no), "do"], (
            f"step {step_no} was called and is not on the way"
        )
        return
    if record.state == "processed" and not (step is not None and step.led_to):
        assert destined != "cannot run", f"step {step_no} cannot run, and the order is processed"
        assert net == (destined == "runs"), f"step {step_no} {destined}, net effect {net}"
    if step is not None and (step.state == "skipped" or destined == "skipped"):
        assert (step.state, destined) == ("skipped", "skipped"), f"step {step_no} {destined}, is {step.state}"
    if destined != "runs":
        assert not world.remote.calls[(record.no, step_no), "do"], (
            f"step {step_no} {destined}, and was called"
        )
    if record.state in ("compensated", "cancelled") and undoable:
        assert net == 0, f"step {step_no} was not undone"
    if step is None or step.effect == "none":
        assert net == 0, f"step {step_no} has an effect that nobody knows of"
    if step is not None and step.undo_state == "undone":
        assert net == 0, f"step {step_no} counts as undone and is not"
