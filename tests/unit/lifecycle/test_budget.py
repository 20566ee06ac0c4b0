"""The retry budget of an order, and of each undo: reserved, charged, given back, spent, granted anew."""

from __future__ import annotations

from typing import Any

from tests.unit.lifecycle.one_order import OneOrder
from triumvir.lifecycle import OperatorAsked, Policy


def order_of(*steps: str, on_error: Any = "halt", **bounds: Any) -> OneOrder:
    policy = Policy(jitter_factor=0, **{"max_failures": 100, "calls_per_request": 3, **bounds})
    order = OneOrder(*steps, on_error=on_error, policy=policy)
    order.claim()
    return order


def allowed(order: OneOrder, step_no: int = 1) -> int | None:
    return order.entry(step_no).allowed(order.record.direction)


def fail(order: OneOrder, calls: int) -> None:
    """The attempt uses so many calls in all, and is given up; the next one begins if there is one."""
    order.expire(calls=calls)
    order.wait(60)
    order.claim()


def test_the_first_call_of_a_step_is_granted_whatever_was_spent() -> None:
    order = order_of("a", "b", retry_budget=0)
    assert allowed(order) == 1
    order.succeed()
    assert (order.record.step, allowed(order, 2)) == (2, 1)


def test_a_dispatch_reserves_what_is_left_and_its_answer_gives_back_what_was_not_used() -> None:
    order = order_of("a", "b", retry_budget=4)
    assert allowed(order) == 3
    fail(order, calls=1)
    assert allowed(order) == 3, "nothing beyond the first was called"
    fail(order, calls=4)
    assert allowed(order) == 1, "three of four are spent"


def test_a_request_sent_again_shares_what_was_reserved() -> None:
    order = order_of("a", retry_budget=9)
    order.wait(3)
    order.retry_due()
    assert order.requests[-1].retry == 1
    assert allowed(order) == 3
    assert order.record.budget == 9


def test_an_attempt_that_nobody_began_costs_nothing() -> None:
    order = order_of("a", retry_budget=2)
    for _ in range(3):
        order.expire(begun=False, calls=0)
        order.wait(60)
        order.claim()
    assert allowed(order) == 3


def test_a_spent_budget_is_told_in_words_and_takes_the_road_of_on_error() -> None:
    order = order_of("a", retry_budget=2)
    order.expire(calls=3)
    assert order.state == "error"
    why = order.last.log[-1].why
    assert "the retry budget of the order is spent (2 calls beyond the first of each step)" in why
    assert order.alerts == ["order-halted"]


def test_with_compensate_a_spent_budget_undoes_the_order() -> None:
    order = order_of("a", "b", on_error="compensate", retry_budget=1)
    order.expire(calls=2)
    assert order.state == "compensating"


def test_the_undo_uses_nothing_of_the_forward_budget() -> None:
    order = order_of("a", on_error="compensate", retry_budget=0, undo_retry_budget=4)
    order.expire(calls=1)
    order.claim()
    assert (order.state, allowed(order)) == ("compensating", 3)


def test_a_spent_undo_rests_with_an_alert_until_an_operator_grants_it_anew() -> None:
    order = order_of("a", on_error="compensate", retry_budget=0, undo_retry_budget=1)
    order.expire(calls=1)
    order.claim()
    assert allowed(order) == 2
    order.expire(calls=2)
    assert order.state == "compensation_failed"
    assert "the retry budget of this undo is spent" in order.last.log[-1].why
    order.on(OperatorAsked("resume", "ann"))
    order.claim()
    assert (allowed(order), order.entry().undo_limit) == (2, 4)


def test_a_retry_of_an_operator_brings_the_budget_anew_and_one_call() -> None:
    order = order_of("a", retry_budget=2)
    order.expire(calls=3)
    order.on(OperatorAsked("retry", "ann"))
    assert order.record.budget == 2 + 2 + 1
    order.claim()
    assert allowed(order) == 3


def test_a_retry_of_an_operator_calls_once_even_without_a_budget() -> None:
    order = order_of("a", retry_budget=0)
    order.expire(calls=1)
    order.on(OperatorAsked("retry", "ann"))
    order.claim()
    assert allowed(order) == 1


def test_a_request_that_nobody_waits_for_any_more_is_charged_in_full() -> None:
    order = order_of("a", retry_budget=9)
    order.break_()
    assert order.entry().calls == 3
