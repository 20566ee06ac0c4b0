"""A paused order stands still from its next rest on; it loses nothing by it, and goes on where it was."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.lifecycle.one_order import OneOrder
from triumvir.lifecycle import PAUSED, Action, OperatorAsked, Policy


def ask(order: OneOrder, action: Action, by: str = "operator:ann", reason: str | None = None) -> str:
    """What the history says of it, in one line."""
    last = order.on(OperatorAsked(action, by, reason))
    return " | ".join(row.why for row in last.log)


def shown(order: OneOrder) -> Any:
    return order.state, order.record.held_by, order.record.paused_by


def test_a_pending_order_is_held_at_once_and_its_client_is_told() -> None:
    order = OneOrder("s1")
    assert ask(order, "pause", reason="the bank is down") == (
        "paused by operator:ann: the bank is down | held: pause:order"
    )
    assert shown(order) == ("pending", PAUSED, "operator:ann: the bank is down")
    assert order.statuses == ["held"]
    order.claim()
    assert not order.requests


def test_a_request_under_way_runs_to_its_answer_and_then_the_order_is_held() -> None:
    order = OneOrder("s1", "s2")
    order.claim()
    before = order.record
    assert ask(order, "pause").endswith("takes effect at the answer or the deadline")
    kept = replace(order.record, history=before.history, paused_at=None, paused_by=None)
    assert kept == before, "no clock stops, no lock goes"
    order.succeed()
    assert shown(order) == ("pending", PAUSED, "operator:ann")
    assert len(order.requests) == 1


def test_a_request_under_way_is_sent_again_while_its_order_is_paused() -> None:
    order = OneOrder("s1")
    order.claim()
    ask(order, "pause")
    assert order.record.wake_at is not None
    order.now = order.record.wake_at
    order.retry_due()
    assert [request.retry for request in order.requests] == [0, 1]


def test_a_request_under_way_runs_to_its_deadline_and_its_order_is_held_with_its_counts() -> None:
    order = OneOrder("s1")
    order.claim()
    ask(order, "pause")
    order.expire()
    assert shown(order) == ("pending", PAUSED, "operator:ann")
    assert order.record.failure_count == 1


def test_the_last_step_of_a_paused_order_ends_it() -> None:
    order = OneOrder("s1")
    order.claim()
    ask(order, "pause")
    order.succeed()
    assert shown(order) == ("processed", None, None)


def test_an_order_that_goes_on_has_a_fresh_deadline_and_lost_nothing() -> None:
    order = OneOrder("s1", "s2", policy=Policy(jitter_factor=0, step_timeout=timedelta(seconds=10)))
    order.claim()
    ask(order, "pause")
    order.succeed()
    order.wait(3600)
    counts = (order.record.failure_count, order.record.unbegun_count)
    assert ask(order, "unpause", by="operator:bob", reason="it is back") == (
        "unpaused by operator:bob: it is back"
    )
    order.claim()
    assert order.requests[-1].step_no == 2
    assert order.record.complete_by == order.now + timedelta(seconds=10)
    assert (order.record.failure_count, order.record.unbegun_count) == counts == (0, 0)


def test_a_back_off_goes_on_with_what_was_left_of_it() -> None:
    policy = Policy(jitter_factor=0, reopen_backoff=timedelta(seconds=8))
    order = OneOrder("s1", policy=policy)
    order.claim()
    order.expire()
    order.wait(3)
    ask(order, "pause")
    order.wait(3600)
    ask(order, "unpause")
    assert order.record.not_before == order.now + timedelta(seconds=5)


def test_an_order_that_is_being_undone_stands_still_too() -> None:
    order = OneOrder("s1", "s2", on_error="compensate")
    order.claim()
    order.succeed()
    order.fail()
    ask(order, "pause")
    assert shown(order) == ("compensating", PAUSED, "operator:ann")
    order.claim()
    assert [request.direction for request in order.requests] == ["do", "do"]
    ask(order, "unpause")
    order.claim()
    order.succeed()
    assert order.state == "compensated"


def test_what_fails_for_good_while_paused_is_undone_only_when_it_goes_on() -> None:
    order = OneOrder("s1", "s2", on_error="compensate")
    order.claim()
    order.succeed()
    ask(order, "pause")
    order.fail()
    assert shown(order) == ("compensating", PAUSED, "operator:ann")


def test_a_second_pause_changes_nothing_and_says_whose_the_first_was() -> None:
    order = OneOrder("s1")
    ask(order, "pause", reason="one")
    before = order.record
    assert ask(order, "pause", by="operator:bob", reason="two") == (
        "pause by operator:bob: it is paused already, by operator:ann: one"
    )
    assert replace(order.record, history=before.history) == before
    assert order.statuses == ["held"]


def test_letting_go_on_what_is_not_paused_changes_nothing() -> None:
    order = OneOrder("s1")
    before = order.record
    assert ask(order, "unpause") == "unpause by operator:ann: it is not paused"
    assert replace(order.record, history=before.history) == before


def test_a_hold_by_something_else_stays_when_the_pause_came_and_went_in_between() -> None:
    order = OneOrder("s1")
    order.holds["s1"] = "agent:a"
    order.claim()
    ask(order, "pause")
    assert order.record.held_by == PAUSED
    ask(order, "unpause")
    order.claim()
    assert order.record.held_by == "agent:a"
    assert order.statuses == ["held"], "told once"


def test_what_rests_or_ended_is_not_paused() -> None:
    order = OneOrder("s1")
    order.break_()
    assert ask(order, "pause") == "pause by operator:ann refused: the order is error"
    ask(order, "close")
    assert ask(order, "pause") == "pause by operator:ann refused: the order is closed"


def test_an_order_that_came_to_rest_while_paused_is_retried_only_once_it_goes_on() -> None:
    order = OneOrder("s1")
    order.claim()
    ask(order, "pause")
    order.fail()
    assert order.state == "error"
    ask(order, "retry")
    assert shown(order) == ("pending", PAUSED, "operator:ann")
    ask(order, "unpause")
    order.claim()
    order.succeed()
    assert order.state == "processed"


@pytest.mark.parametrize("begun", [False, True])
def test_a_cancel_of_a_paused_order_ends_it_or_waits_with_what_is_to_be_undone(begun: bool) -> None:
    order = OneOrder("s1", "s2")
    if begun:
        order.claim()
        ask(order, "pause")
        order.succeed()
    else:
        ask(order, "pause")
    order.cancel()
    assert shown(order)[:2] == (("compensating", PAUSED) if begun else ("cancelled", None))


def test_the_claim_of_a_scheduler_that_does_not_know_of_the_pause_is_held() -> None:
    order = OneOrder("s1")
    ask(order, "pause")
    order.release()
    order.claim()
    assert (order.record.held_by, order.requests) == (PAUSED, [])


@pytest.mark.parametrize("undoing", [False, True])
def test_a_paused_workflow_holds_its_orders_between_two_steps(undoing: bool) -> None:
    order = OneOrder("s1", "s2", on_error="compensate")
    order.claim()
    order.succeed() if undoing else None
    order.paused = "pause:workflow:w"
    order.fail() if undoing else order.succeed()
    order.claim()
    assert order.record.held_by == "pause:workflow:w"
    assert order.state == ("compensating" if undoing else "pending")
    order.paused = None
    order.release()
    order.claim()
    assert len(order.requests) == (3 if undoing else 2)


def test_a_paused_workflow_does_not_keep_a_request_under_way_from_being_sent_again() -> None:
    order = OneOrder("s1")
    order.claim()
    order.paused = "pause:workflow:w"
    assert order.record.wake_at is not None
    order.now = order.record.wake_at
    order.retry_due()
    assert [request.retry for request in order.requests] == [0, 1]
