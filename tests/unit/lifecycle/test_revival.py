"""Revival: the next retry of a request is brought forward once who sent it is gone; never added, never later."""

from __future__ import annotations

from datetime import timedelta

from tests.unit.lifecycle.one_order import OneOrder
from triumvir.lifecycle import Policy, Revived

MINUTE = timedelta(minutes=1)


def order_of(delay: float = 3, *, max_retries: int = 2) -> OneOrder:
    policy = Policy(
        jitter_factor=0,
        step_timeout=60 * MINUTE,
        retry_interval=MINUTE,
        max_retries=max_retries,
        action_recovery_delay=timedelta(seconds=delay),
    )
    order = OneOrder("a", policy=policy)
    order.claim()
    return order


def seconds_to_retry(order: OneOrder) -> float | None:
    wake_at = order.record.wake_at
    return None if wake_at is None else (wake_at - order.now).total_seconds()


def test_the_next_retry_is_brought_forward_and_nothing_else_changes() -> None:
    order = order_of()
    before = order.record
    order.on(Revived())
    assert seconds_to_retry(order) == 3
    assert (order.record.complete_by, order.record.retries, order.requests[1:]) == (before.complete_by, 0, [])
    assert "retry 1 is brought forward" in order.last.log[-1].why


def test_a_revival_goes_on_with_the_history_of_retries() -> None:
    order = order_of()
    order.wait(60)
    order.retry_due()
    order.on(Revived())
    order.wait(3)
    order.retry_due()
    assert [request.retry for request in order.requests] == [0, 1, 2]
    assert seconds_to_retry(order) is None, "of two one was used, one was left"
    assert not order.on(Revived()).changed


def test_a_retry_that_is_due_sooner_stays() -> None:
    order = order_of()
    order.wait(58)
    assert not order.on(Revived()).changed
    assert seconds_to_retry(order) == 2


def test_a_second_revival_does_not_put_it_off() -> None:
    order = order_of()
    order.on(Revived())
    order.wait(1)
    assert not order.on(Revived()).changed
    assert seconds_to_retry(order) == 2


def test_a_delay_of_zero_turns_it_off() -> None:
    assert not order_of(0).on(Revived()).changed


def test_without_retries_none_is_added() -> None:
    assert not order_of(max_retries=0).on(Revived()).changed


def test_an_order_that_has_moved_on_is_left_alone() -> None:
    order = order_of()
    order.succeed()
    assert order.state == "processed"
    assert not order.on(Revived()).changed


def test_an_order_that_waits_to_be_claimed_is_left_alone() -> None:
    order = order_of()
    order.expire()
    assert order.state == "pending"
    assert not order.on(Revived()).changed
