"""The interleavings that lose, double or strand an order where a rule is missing, each played step by step."""

from __future__ import annotations

from datetime import timedelta

from tests.property.fleet import CALLS_PER_REQUEST, Call
from tests.property.settle import settle
from tests.property.world import Order, World, workflow_of
from triumvir.contracts.names import Direction
from triumvir.lifecycle import Policy
from triumvir.workflow import OnError


def world_of(steps: int = 1, on_error: OnError = "compensate", max_failures: int = 0) -> tuple[World, Order]:
    """One order whose first request is under way."""
    policy = Policy(max_failures=max_failures, jitter_factor=0, calls_per_request=CALLS_PER_REQUEST)
    world = World(workflow_of(steps, on_error), policy, orders=1)
    world.claim(world.orders[0])
    return world, world.orders[0]


def deliver_all(world: World, agent: int = 0) -> None:
    """What is in the bag now reaches its consumers; requests go to one agent."""
    for posted in list(world.bag):
        world.deliver(posted, world.fleet.instances[agent])


def call_of(world: World, direction: Direction, step_no: int = 1) -> Call:
    """The newest call of a step and direction that is under way."""
    wanted = (direction, step_no)
    return [c for c in world.fleet.calls if (c.request.direction, c.request.step_no) == wanted][-1]


def succeed(world: World, direction: Direction, step_no: int = 1) -> None:
    """A request is begun, its call works, and the order takes the reply."""
    deliver_all(world)
    call = call_of(world, direction, step_no)
    world.land(call, "works")
    world.hear(call, again=False)
    deliver_all(world)


def expire(world: World, order: Order) -> None:
    """Its deadline passes and the supervisor comes."""
    assert order.record.complete_by is not None
    world.advance(order.record.complete_by - world.now)
    world.supervise(order)


def undone_with_a_call_outstanding(steps: int = 1) -> tuple[World, Order, Call]:
    """The last step timed out and was undone; its agent lives and still waits for the answer of its call."""
    world, order = world_of(steps)
    for step_no in range(1, steps):
        succeed(world, "do", step_no)
    deliver_all(world)
    zombie = call_of(world, "do", steps)
    expire(world, order)
    world.claim(order)
    succeed(world, "undo", steps)
    return world, order, zombie


def test_a_call_that_lands_after_its_undo_is_undone_again_under_another_key() -> None:
    world, order, zombie = undone_with_a_call_outstanding()
    ended = order.record.state
    assert ended == "compensated"
    world.land(zombie, "works")
    world.hear(zombie, again=False)
    deliver_all(world)
    assert order.record.state == "compensating"
    assert order.record.steps[0].undo_generation == 1
    assert order.alerts["late-success"] == 1
    settle(world, {})
    assert (order.record.state, world.remote.net[1, 1]) == ("compensated", 0)


def test_an_undo_that_is_reopened_while_another_one_runs_gets_an_attempt_of_its_own() -> None:
    world, order, zombie = undone_with_a_call_outstanding(steps=2)
    first_undo = [row for row in order.log if row.why == "undo s2"]
    assert order.record.step == 1
    deliver_all(world)  # the undo of the first step is begun
    attempt = order.record.attempt
    world.land(zombie, "works")
    world.hear(zombie, again=False)
    deliver_all(world)
    succeed(world, "undo", 1)
    assert order.record.locked_by is None
    world.claim(order)
    assert (order.record.step, order.record.attempt) == (2, attempt + 1)
    assert len([row for row in order.log if row.why == "undo s2"]) == len(first_undo) + 1
    settle(world, {})
    assert (order.record.state, world.remote.net[1, 2]) == ("compensated", 0)


def test_a_late_success_ends_the_undo_that_may_have_come_before_it() -> None:
    world, order = world_of()
    deliver_all(world)
    zombie = call_of(world, "do")
    expire(world, order)
    world.claim(order)
    deliver_all(world)
    undo = call_of(world, "undo")
    world.land(undo, "works")  # finds nothing to undo, and its answer is on the way
    world.land(zombie, "works")
    world.hear(zombie, again=False)
    deliver_all(world)
    world.hear(undo, again=False)
    deliver_all(world)
    assert (order.record.state, order.record.steps[0].undo_state) == ("compensating", None)
    settle(world, {})
    assert (order.record.state, world.remote.net[1, 1]) == ("compensated", 0)


def test_a_cancel_that_crosses_an_unknown_operation_is_carried_out() -> None:
    world, order = world_of()
    world.fleet.instances[0].unknown.add("do-1")
    world.cancel(order)
    deliver_all(world)
    deliver_all(world)
    assert order.record.state == "cancelled"
    assert not world.remote.calls


def test_an_unknown_operation_is_not_refused_once_another_instance_has_begun_the_request() -> None:
    world, order = world_of()
    request = world.bag[0]
    world.deliver(request, world.fleet.instances[0], keep=True)
    world.fleet.instances[1].unknown.add("do-1")
    world.deliver(request, world.fleet.instances[1])
    assert not world.bag
    world.land(call_of(world, "do"), "works")
    world.crash(world.fleet.instances[0])
    world.cancel(order)
    settle(world, {})
    assert (order.record.state, world.remote.net[1, 1]) == ("compensated", 0)


def test_no_copy_of_a_request_is_begun_after_its_unknown_operation_was_refused() -> None:
    world, order = world_of()
    request = world.bag[0]
    world.fleet.instances[0].unknown.add("do-1")
    world.deliver(request, world.fleet.instances[0], keep=True)
    world.deliver(request, world.fleet.instances[1])
    deliver_all(world)
    assert (order.record.state, order.record.held_by) == ("pending", "operation:a/do-1")
    assert not world.remote.calls


def test_an_undo_waits_for_the_call_of_a_dead_agent_whose_request_another_one_answered() -> None:
    world, order = world_of()
    deliver_all(world, agent=0)
    world.crash(world.fleet.instances[0])
    deliver_all(world, agent=1)  # the redelivered request; the lapsed row is taken over
    taken_over = call_of(world, "do")
    world.land(taken_over, "refuses")
    world.hear(taken_over, again=False)
    deliver_all(world)
    assert order.record.state == "compensating"
    assert order.record.steps[0].effect == "unknown"
    world.claim(order)
    deliver_all(world)
    assert [call.request.direction for call in world.fleet.calls] == ["do"]
    settle(world, {})  # the dead agent's call lands at the last moment
    assert (order.record.state, world.remote.net[1, 1]) == ("compensated", 0)


def test_an_order_set_aside_while_its_request_is_under_way_is_undone_when_cancelled() -> None:
    world, order = world_of()
    deliver_all(world)
    call = call_of(world, "do")
    world.break_(order)
    world.cancel(order)
    world.land(call, "works")
    world.crash(world.fleet.instances[0])
    settle(world, {})
    assert (order.record.state, world.remote.net[1, 1]) == ("compensated", 0)


def test_a_request_that_arrives_after_its_undo_calls_nothing() -> None:
    world, order = world_of()
    forward = world.bag[0]
    world.break_(order)
    world.cancel(order)
    world.claim(order)
    world.deliver(world.bag[-1], world.fleet.instances[0])
    world.deliver(forward, world.fleet.instances[1])
    settle(world, {})
    assert world.remote.calls[(1, 1), "do"] == 0
    assert (order.record.state, world.remote.net[1, 1]) == ("compensated", 0)


def test_a_success_recorded_after_the_deadline_serves_the_next_attempt_without_a_call() -> None:
    world, order = world_of(max_failures=1)
    deliver_all(world)
    zombie = call_of(world, "do")
    expire(world, order)
    world.land(zombie, "works")
    world.hear(zombie, again=False)
    world.advance(timedelta(seconds=1))
    world.claim(order)
    deliver_all(world)
    deliver_all(world)
    assert order.record.state == "processed"
    assert world.remote.calls[(1, 1), "do"] == 1


def test_a_success_of_an_attempt_that_was_replaced_is_still_told() -> None:
    world, order = world_of(max_failures=1)
    deliver_all(world)
    zombie = call_of(world, "do")
    expire(world, order)
    world.advance(timedelta(seconds=1))
    world.claim(order)
    deliver_all(world, agent=1)
    world.land(call_of(world, "do"), "refuses")
    world.hear(call_of(world, "do"), again=False)
    deliver_all(world)
    world.claim(order)
    succeed(world, "undo")
    assert order.record.state == "compensated"
    world.land(zombie, "works")
    world.hear(zombie, again=False)
    settle(world, {})
    assert (order.record.state, world.remote.net[1, 1]) == ("compensated", 0)
    assert order.alerts["late-success"] == 1
