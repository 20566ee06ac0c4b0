"""While an order's document cannot be read nothing of it is dispatched, and that burns nothing."""

from __future__ import annotations

from datetime import timedelta

from tests.unit.lifecycle.one_order import OneOrder
from triumvir.lifecycle import Policy
from triumvir.workflow import Step, Workflow

AWAY = "orders-database"


def test_a_withheld_order_is_held_and_told_and_burns_nothing() -> None:
    order = OneOrder("s1")
    order.withheld = AWAY
    order.claim()
    assert (order.state, order.record.held_by, order.statuses) == ("pending", AWAY, ["held"])
    assert (order.record.attempt, order.record.failure_count, order.record.steps) == (0, 0, ())
    assert order.record.complete_by is None
    order.withheld = None
    order.release()
    order.claim()
    assert (order.state, order.record.attempt) == ("processing", 1)


def test_an_order_that_is_withheld_between_two_steps_keeps_what_is_completed() -> None:
    order = OneOrder("s1", "s2")
    order.claim()
    order.withheld = AWAY
    order.succeed()
    assert (order.state, order.record.held_by, order.entry().state) == ("pending", AWAY, "completed")


def test_a_withheld_order_whose_last_step_is_done_is_processed() -> None:
    order = OneOrder("s1")
    order.claim()
    order.withheld = AWAY
    order.succeed()
    assert (order.state, order.record.held_by) == ("processed", None)


def test_a_withheld_undo_stays_compensating() -> None:
    order = OneOrder("s1", "s2", on_error="compensate")
    order.claim()
    order.succeed()
    order.withheld = AWAY
    order.fail()
    order.claim()
    assert (order.state, order.record.held_by, order.record.locked_by) == ("compensating", AWAY, None)


def test_a_condition_is_not_looked_at_without_the_payload_it_looks_at() -> None:
    order = OneOrder("s1")
    step = Step("s1", agent="a", operation="s1", undo="undo-s1", when="payload.wanted")
    order.workflow = Workflow("w", 1, [step])
    order.withheld = AWAY
    order.claim()
    assert (order.state, order.record.held_by) == ("pending", AWAY)


def test_a_retry_that_is_due_while_withheld_counts_and_is_not_sent() -> None:
    order = OneOrder("s1", policy=Policy(jitter_factor=0, retry_interval=timedelta(seconds=3)))
    order.claim()
    order.withheld = AWAY
    order.wait(3)
    order.retry_due()
    assert (order.record.retries, len(order.requests)) == (1, 1)
    assert order.last.log[-1].why == f"retry 1 not sent: {AWAY}"
    order.withheld = None
    order.wait(3)
    order.retry_due()
    assert [request.retry for request in order.requests] == [0, 2]
