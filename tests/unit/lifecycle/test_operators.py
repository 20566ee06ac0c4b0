"""An operator's moves: what rests goes on, is undone, or is closed; what does not rest is left alone, and says so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lifecycle.one_order import OneOrder
from triumvir.lifecycle import Action, Decision, OperatorAsked, Policy


def ask(order: OneOrder, action: Action, **members: Any) -> Decision:
    return order.on(OperatorAsked(action, "operator:ann", **members))


def halted(*, effect: Any = "none") -> OneOrder:
    """Its first step is done, its second has failed for good."""
    order = OneOrder("s1", "s2", "s3")
    order.claim()
    order.succeed()
    order.fail(effect=effect)
    assert order.state == "error"
    return order


def stuck() -> OneOrder:
    """The undo of its first step has failed for good."""
    order = OneOrder("s1", "s2", on_error="compensate")
    order.claim()
    order.succeed()
    order.fail()
    order.claim()
    order.fail()
    assert order.state == "compensation_failed"
    return order


def test_a_retry_goes_on_with_the_step_that_failed_and_tells_the_client() -> None:
    order = halted()
    ask(order, "retry", reason="card was renewed")
    assert (order.state, order.statuses[-1]) == ("pending", "retrying")
    assert order.last.log[-1].why == "retried by operator:ann: card was renewed"
    order.claim()
    assert order.requests[-1].step_no == 2
    order.succeed()
    order.succeed()
    assert order.state == "processed"


def test_a_retry_brings_its_failures_anew() -> None:
    order = OneOrder("s1", policy=Policy(jitter_factor=0, max_failures=1))
    order.claim()
    order.reopen()
    order.expire()
    assert order.state == "error"
    ask(order, "retry")
    order.claim()
    order.expire()
    assert (order.state, order.record.failure_count) == ("pending", 1)


@pytest.mark.parametrize(("effect", "generation"), [("none", 1), ("unknown", 0)])
def test_only_a_step_that_left_no_effect_is_retried_under_a_new_key(effect: str, generation: int) -> None:
    order = halted(effect=effect)
    ask(order, "retry")
    assert order.entry(2).generation == generation


def test_a_skipped_step_counts_as_done_by_hand_and_is_undone_like_any_other() -> None:
    order = halted()
    ask(order, "skip", result='{"paid":true}', reason="paid in cash")
    step = order.entry(2)
    assert (step.state, step.effect, step.result, step.by_hand) == (
        "completed",
        "certain",
        '{"paid":true}',
        True,
    )
    order.claim()
    assert (order.state, order.requests[-1].step_no) == ("processing", 3)
    order.fail()
    ask(order, "compensate")
    order.claim()
    assert (order.requests[-1].direction, order.requests[-1].step_no) == ("undo", 2)


def test_a_skip_of_the_last_step_completes_the_order() -> None:
    order = OneOrder("s1")
    order.claim()
    order.fail()
    ask(order, "skip")
    order.claim()
    assert (order.state, order.entry().result) == ("processed", "null")


def test_what_may_still_be_called_is_not_skipped() -> None:
    order = halted()
    ask(order, "skip", under_way=True)
    assert order.state == "error"
    assert "may still be under way" in order.last.log[-1].why


def test_a_failed_undo_that_was_done_by_hand_lets_the_rest_go_on() -> None:
    order = stuck()
    ask(order, "skip", reason="refunded by phone")
    assert order.entry(1).undo_state == "undone"
    order.claim()
    assert order.state == "compensated"


def test_compensation_resumes_at_the_undo_that_failed_with_its_tries_anew() -> None:
    order = stuck()
    ask(order, "resume")
    assert (order.state, order.statuses[-1], order.entry(1).undo_tries) == ("compensating", "compensating", 0)
    order.claim()
    assert (order.requests[-1].direction, order.requests[-1].step_no) == ("undo", 1)
    order.succeed()
    assert order.state == "compensated"


def test_a_halted_order_is_compensated_at_once_and_a_running_one_after_its_answer() -> None:
    order = halted()
    ask(order, "compensate")
    assert order.state == "compensating"
    running = OneOrder("s1")
    running.claim()
    ask(running, "compensate")
    assert (running.state, running.record.cancel_requested) == ("processing", True)
    running.succeed()
    assert running.state == "compensating"


@pytest.mark.parametrize("resting", [halted, stuck])
def test_a_closed_order_has_ended_and_its_client_is_told_why(resting: Any) -> None:
    order = resting()
    ask(order, "close", reason="settled in court")
    assert (order.state, order.statuses[-1]) == ("closed", "closed")
    assert order.record.ended_at is not None
    assert not order.claim().changed


@pytest.mark.parametrize("action", ["retry", "skip", "resume", "close"])
def test_an_order_that_does_not_rest_is_left_alone(action: Action) -> None:
    order = OneOrder("s1")
    order.claim()
    before = order.record
    ask(order, action)
    assert (order.state, order.record.fence, order.statuses) == ("processing", before.fence, [])
    assert order.last.log[-1].why == f"{action} by operator:ann refused: the order is processing"


def test_an_order_that_moved_on_since_it_was_looked_at_is_left_alone() -> None:
    order = halted()
    seen = order.record.fence
    ask(order, "retry", fence=seen)
    order.claim()
    order.fail()
    assert order.state == "error"
    ask(order, "skip", fence=seen)
    assert order.state == "error"
    assert "has moved on" in order.last.log[-1].why


def test_the_same_move_twice_is_made_once() -> None:
    order = halted()
    asked = OperatorAsked("retry", "operator:ann", fence=order.record.fence)
    order.on(asked)
    moved = order.record
    order.on(asked)
    assert (order.state, order.record.fence) == ("pending", moved.fence)
    assert order.statuses.count("retrying") == 1


def test_a_success_that_comes_after_the_order_was_retried_is_not_done_again() -> None:
    order = OneOrder("s1", policy=Policy(jitter_factor=0, max_failures=0))
    order.claim()
    late = order.success("late")
    order.expire()
    assert order.state == "error"
    ask(order, "retry")
    order.reply(late)
    assert order.entry().effect == "certain"
    assert order.entry().generation == 0


def test_a_success_that_comes_after_an_undo_was_resumed_is_undone_under_a_new_key() -> None:
    """The service may have answered the undo that failed, and would answer the next one from memory."""
    order = OneOrder("one", on_error="compensate", policy=Policy(max_failures=0, jitter_factor=0))
    order.claim()
    late = order.success()
    order.expire(begun=True)
    order.claim()
    order.fail()
    assert order.state == "compensation_failed"
    ask(order, "resume")
    order.reply(late)
    assert order.entry().undo_generation == 1
    order.claim()
    order.succeed()
    assert (order.state, order.entry().undo_state) == ("compensated", "undone")
