"""Cancels: before, during and after; the first commit wins and the client is told which."""

from __future__ import annotations

import pytest

from tests.unit.lifecycle.one_order import OneOrder
from triumvir.lifecycle import Policy


def test_an_order_that_nobody_claimed_is_cancelled_at_once() -> None:
    order = OneOrder("s1")
    order.cancel("too dear")
    assert (order.state, order.statuses) == ("cancelled", ["cancelled"])
    assert order.last.log[-1].why == "cancelled by the client: too dear"
    assert not order.claim().changed


def test_a_held_order_is_cancelled_at_once() -> None:
    order = OneOrder("s1")
    order.holds["s1"] = "agent:a"
    order.claim()
    order.cancel()
    assert (order.state, order.record.held_by) == ("cancelled", None)


def test_a_cancel_waits_for_the_request_that_is_under_way() -> None:
    order = OneOrder("s1", "s2")
    order.claim()
    order.cancel()
    assert (order.state, order.record.cancel_requested, order.statuses) == ("processing", True, [])
    assert not order.cancel().changed
    order.succeed()
    assert (order.state, order.statuses) == ("compensating", ["compensating"])
    assert len(order.requests) == 1


def test_a_cancel_takes_effect_even_when_the_last_step_succeeds() -> None:
    order = OneOrder("s1")
    order.claim()
    order.cancel()
    order.succeed()
    assert order.state == "compensating"


def test_a_cancel_takes_effect_at_the_deadline() -> None:
    order = OneOrder("s1")
    order.claim()
    order.cancel()
    order.expire()
    assert (order.state, order.record.cancel_requested) == ("compensating", False)


def test_a_cancelled_order_whose_only_attempt_nobody_began_is_cancelled() -> None:
    order = OneOrder("s1")
    order.claim()
    order.cancel()
    order.expire(begun=False, calls=0)
    assert order.state == "cancelled"


def test_a_cancel_waits_for_the_supervisor_no_longer_than_the_answer() -> None:
    order = OneOrder("s1")
    order.claim()
    order.fail("transient", "unknown")
    order.cancel()
    assert order.state == "compensating"


def test_a_permanent_failure_that_called_nothing_ends_a_cancelled_order_cancelled() -> None:
    order = OneOrder("s1")
    order.claim()
    order.cancel()
    order.fail(calls=0)
    assert order.state == "cancelled"
    assert order.last.log[-1].why.startswith("s1 failed: no luck; cancelled")


def test_a_permanent_failure_after_a_call_ends_a_cancelled_order_compensated() -> None:
    order = OneOrder("s1", on_error="halt")
    order.claim()
    order.cancel()
    order.fail(calls=1)
    order.claim()
    assert (order.state, order.statuses) == ("compensated", ["compensating", "compensated"])


def test_a_cancel_that_crosses_an_unknown_operation_is_not_forgotten() -> None:
    order = OneOrder("s1")
    order.claim()
    order.cancel()
    order.refuse("unknown_operation")
    assert (order.state, order.record.held_by) == ("cancelled", None)


def test_an_order_between_two_attempts_is_undone_at_once() -> None:
    order = OneOrder("s1")
    order.claim()
    order.expire()
    order.cancel()
    assert (order.state, order.record.not_before) == ("compensating", None)


def test_an_order_that_rests_in_error_is_undone() -> None:
    order = OneOrder("s1", "s2")
    order.claim()
    order.succeed()
    order.fail()
    order.cancel()
    order.claim()
    order.succeed()
    assert (order.state, order.entry().undo_state) == ("compensated", "undone")


def test_a_cancel_of_an_order_that_is_undone_already_is_answered() -> None:
    order = OneOrder("s1", on_error="compensate", policy=Policy(max_failures=0))
    order.claim()
    order.expire()
    before = order.record.fence
    order.cancel()
    assert (order.state, order.statuses) == ("compensating", ["compensating", "compensating"])
    assert order.record.fence == before


@pytest.mark.parametrize("end", ["processed", "compensated", "cancelled", "compensation_failed"])
def test_a_cancel_after_the_end_is_refused_and_told(end: str) -> None:
    order = OneOrder("s1", "s2", on_error="compensate")
    if end == "cancelled":
        order.cancel()
    else:
        order.claim()
        order.succeed()
        order.succeed() if end == "processed" else order.fail()
        order.claim()
        if order.state == "compensating":
            order.succeed() if end == "compensated" else order.fail()
    assert order.state == end
    order.cancel()
    assert (order.state, order.statuses[-1]) == (end, "cancel_refused")
