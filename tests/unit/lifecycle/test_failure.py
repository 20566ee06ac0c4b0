"""Deadlines that pass, failures that are counted, orders that are set aside."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from tests.unit.lifecycle.one_order import OneOrder
from triumvir.lifecycle import Expired, Moment, Policy, set_aside


def test_the_supervisor_does_nothing_before_the_deadline() -> None:
    order = OneOrder("s1")
    order.claim()
    order.wait(9.9)
    assert not order.on(Expired(begun=True)).changed


def test_an_expiry_that_another_supervisor_handled_changes_nothing() -> None:
    order = OneOrder("s1")
    order.claim()
    order.expire()
    assert not order.expire().changed
    assert order.record.failure_count == 1


def test_a_begun_attempt_that_expires_is_in_doubt_and_tried_again_after_a_back_off() -> None:
    order = OneOrder("s1")
    order.claim()
    order.expire(calls=2)
    assert (order.state, order.record.failure_count) == ("pending", 1)
    assert order.record.not_before == order.now + timedelta(seconds=1)
    assert (order.entry().effect, order.entry().calls) == ("unknown", 2)
    assert order.entry().error == "no answer before the deadline"


def test_the_back_off_doubles_up_to_its_cap() -> None:
    order = OneOrder(
        "s1", policy=Policy(max_failures=9, reopen_backoff_max=timedelta(seconds=5), jitter_factor=0)
    )
    waits = []
    for _ in range(4):
        order.claim()
        order.expire()
        assert order.record.not_before is not None
        waits.append((order.record.not_before - order.now).total_seconds())
        order.wait(60)
    assert waits == [1, 2, 4, 5]


@pytest.mark.parametrize("max_failures", [0, 1, 3])
def test_a_step_is_tried_once_more_than_the_failures_it_is_allowed(max_failures: int) -> None:
    order = OneOrder("s1", policy=Policy(max_failures=max_failures))
    while order.state != "error":
        order.claim()
        order.expire()
        order.wait(60)
    assert len(order.requests) == max_failures + 1
    assert order.alerts == ["order-halted"]


def test_after_its_failures_a_step_is_tried_once_more_after_each_cool_off_then_given_up() -> None:
    cool_offs = (timedelta(minutes=5), timedelta(hours=1))
    order = OneOrder("s1", policy=Policy(max_failures=1, jitter_factor=0, cool_offs=cool_offs))
    waits = []
    for _ in range(3):
        order.claim()
        order.expire()
        assert order.record.not_before is not None
        waits.append((order.record.not_before - order.now).total_seconds())
        order.wait(3600)
    assert waits == [1, 300, 3600]
    order.claim()
    order.expire()
    assert (order.state, order.alerts) == ("error", ["order-halted"])
    assert order.last.log[-1].why == "s1 failed 4 times: no answer before the deadline"


def test_an_undo_cools_off_too_before_it_has_failed_for_good() -> None:
    policy = Policy(max_failures=0, jitter_factor=0, cool_offs=(timedelta(minutes=5),))
    order = OneOrder("s1", "s2", on_error="compensate", policy=policy)
    order.claim()
    order.succeed()
    order.fail()
    order.claim()
    order.expire()
    assert order.state == "compensating"
    assert order.record.not_before == order.now + timedelta(minutes=5)
    order.wait(300)
    order.claim()
    order.expire()
    assert order.state == "compensation_failed"


@pytest.mark.parametrize("begun", [True, False])
def test_orders_that_fail_together_come_back_apart(begun: bool) -> None:
    waits = set()
    for n in range(11):
        order = OneOrder("s1", policy=Policy(jitter_factor=0.2))
        for _ in range(2):  # one that nobody began is free at once, the first time
            order.wait(60)
            order.claim()
            order.draw = n / 10
            order.expire(begun=begun)
        assert order.record.not_before is not None
        waits.add(round((order.record.not_before - order.now).total_seconds(), 3))
    middle = 2.0 if begun else 1.0
    assert sorted(waits) == [round(middle * (0.8 + 0.04 * n), 3) for n in range(11)]


def test_retrying_is_told_once() -> None:
    order = OneOrder("s1")
    for _ in range(3):
        order.claim()
        order.expire()
        order.wait(60)
    assert order.statuses == ["retrying"]


def test_failures_are_counted_for_each_step_anew() -> None:
    order = OneOrder("s1", "s2", policy=Policy(max_failures=1))
    order.claim()
    order.reopen()
    assert order.record.failure_count == 1
    order.succeed()
    assert order.record.failure_count == 0
    order.reopen()
    assert (order.state, order.record.failure_count) == ("processing", 1)


def test_an_attempt_that_nobody_began_burns_nothing() -> None:
    order = OneOrder("s1")
    order.claim()
    order.expire(begun=False, calls=0)
    assert (order.state, order.record.failure_count, order.record.not_before) == ("pending", 0, None)
    assert (order.entry().effect, order.entry().begun, order.statuses) == ("none", False, [])


def test_attempts_that_nobody_begins_come_further_and_further_apart() -> None:
    order = OneOrder("s1", policy=Policy(reopen_backoff=timedelta(seconds=2)))
    waits = []
    for _ in range(4):
        order.claim()
        order.expire(begun=False, calls=0)
        waits.append(order.record.not_before and (order.record.not_before - order.now).total_seconds())
        order.wait(60)
    assert waits == [None, 2, 4, 8]


def test_three_attempts_in_a_row_that_nobody_began_raise_one_alert() -> None:
    order = OneOrder("s1")
    for _ in range(5):
        order.claim()
        order.expire(begun=False, calls=0)
    assert order.alerts == ["never-begun"]
    assert order.record.failure_count == 0


def test_an_attempt_that_was_begun_starts_the_row_anew() -> None:
    order = OneOrder("s1")
    for begun in (False, False, True, False, False):
        order.claim()
        order.expire(begun=begun)
        order.wait(60)
    assert order.alerts == []


def test_a_broken_order_rests_with_its_step_in_doubt() -> None:
    order = OneOrder("s1")
    order.claim()
    order.break_()
    assert (order.state, order.statuses, order.alerts) == ("error", ["failed"], ["order-halted"])
    assert (order.entry().state, order.entry().effect, order.entry().error) == (
        "failed",
        "unknown",
        "a fault",
    )
    assert order.record.locked_by is None


def test_a_broken_order_that_was_held_is_held_no_more() -> None:
    order = OneOrder("s1")
    order.holds["s1"] = "agent:a"
    order.claim()
    order.break_()
    assert (order.state, order.record.held_by, order.record.steps) == ("error", None, ())


def test_an_undo_that_broke_rests_in_compensation_failed() -> None:
    order = OneOrder("s1", "s2", on_error="compensate")
    order.claim()
    order.succeed()
    order.fail()
    order.claim()
    order.break_()
    assert (order.state, order.entry().undo_state) == ("compensation_failed", "undo_failed")
    assert order.alerts == ["compensation-failed"]


def test_an_order_at_its_end_cannot_break() -> None:
    order = OneOrder("s1")
    order.claim()
    order.succeed()
    assert not order.break_().changed


def test_an_order_whose_definition_is_gone_can_be_set_aside_at_any_step() -> None:
    order = OneOrder("s1", "s2", "s3")
    order.claim()
    order.succeed()
    moment = Moment(order.now, UUID(int=1))
    decision = set_aside(order.record, "no definition w 1", moment, order.policy)
    assert (decision.record.state, decision.log[-1].why) == ("error", "no definition w 1")
    assert [step.effect for step in decision.record.steps] == ["certain", "unknown"]
