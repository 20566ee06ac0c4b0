"""Claims, first sends, re-sends and holds."""

from __future__ import annotations

from datetime import timedelta

from tests.unit.lifecycle.one_order import START, OneOrder
from triumvir.lifecycle import Policy


def test_a_claim_locks_the_order_and_sends_the_first_step() -> None:
    order = OneOrder("s1", "s2")
    order.claim()
    assert (order.state, order.record.attempt, order.record.step) == ("processing", 1, 1)
    assert order.record.complete_by == START + timedelta(seconds=10)
    assert [(r.step_no, r.direction, r.retry) for r in order.requests] == [(1, "do", 0)]
    assert order.entry().state == "running"


def test_the_fence_is_the_clock_in_microseconds_and_never_falls_behind_the_last_one() -> None:
    order = OneOrder("s1")
    order.claim()
    assert order.record.fence == int(START.timestamp() * 1_000_000)
    order.now = START - timedelta(days=1)  # a restored database with an older clock
    before = order.record.fence
    order.refuse("unknown_operation")
    assert order.record.fence == before + 1


def test_a_locked_order_is_not_claimed_again() -> None:
    order = OneOrder("s1")
    order.claim()
    assert not order.claim().changed


def test_a_success_sends_the_next_step_under_the_same_attempt() -> None:
    order = OneOrder("s1", "s2")
    order.claim()
    before = order.record
    order.succeed()
    assert (order.record.step, order.record.attempt, order.record.fence) == (2, 1, before.fence)
    assert [r.step_no for r in order.requests] == [1, 2]


def test_the_last_success_ends_the_order_and_tells_completed() -> None:
    order = OneOrder("s1", "s2")
    order.claim()
    order.succeed()
    order.succeed()
    assert (order.state, order.statuses) == ("processed", ["completed"])
    assert (order.record.locked_by, order.record.complete_by) == (None, None)
    assert order.record.ended_at == order.now


def test_progress_is_told_on_request_only() -> None:
    order = OneOrder("s1", "s2", progress=True)
    order.claim()
    order.succeed()
    order.succeed()
    assert order.statuses == ["processing", "step_completed", "completed"]


def test_processing_is_told_once() -> None:
    order = OneOrder("s1", progress=True)
    order.claim()
    order.reopen()
    assert order.statuses == ["processing", "retrying"]


def test_an_absent_agent_holds_the_order_and_burns_nothing() -> None:
    order = OneOrder("s1")
    order.holds["s1"] = "agent:a"
    order.claim()
    assert (order.state, order.record.held_by, order.record.attempt) == ("pending", "agent:a", 0)
    assert (order.record.failure_count, order.record.steps, order.requests) == (0, (), [])


def test_a_held_order_is_not_claimed() -> None:
    order = OneOrder("s1")
    order.holds["s1"] = "agent:a"
    order.claim()
    order.holds.clear()
    assert not order.claim().changed


def test_held_is_told_once() -> None:
    order = OneOrder("s1", "s2", "s3")
    order.claim()
    for _ in range(2):
        order.refuse("unknown_operation")
        assert order.record.held_by == "operation:a/s1"
        order.release()
        order.claim()
    assert order.statuses == ["held"]


def test_a_window_hold_is_not_told_to_the_client() -> None:
    order = OneOrder("s1")
    order.holds["s1"] = "window:a"
    order.claim()
    assert (order.record.held_by, order.statuses) == ("window:a", [])
    order.release()
    order.holds["s1"] = "agent:a"
    order.claim()
    assert order.statuses == ["held"]


def test_a_hold_between_two_steps_keeps_what_is_completed() -> None:
    order = OneOrder("s1", "s2")
    order.claim()
    order.holds["s2"] = "agent:a"
    order.succeed()
    assert (order.state, order.record.held_by, order.entry().state) == ("pending", "agent:a", "completed")
    order.release()
    order.holds.clear()
    order.claim()
    assert (order.record.step, order.record.attempt) == (2, 2)


def test_a_held_undo_stays_compensating() -> None:
    order = OneOrder("s1", "s2", on_error="compensate")
    order.claim()
    order.succeed()
    order.fail()
    order.holds["undo-s1"] = "agent:a"
    order.claim()
    assert (order.state, order.record.held_by, order.record.locked_by) == ("compensating", "agent:a", None)


def test_an_unanswered_request_is_sent_again_at_its_times_and_no_more() -> None:
    order = OneOrder("s1")
    order.claim()
    for seconds in (3, 3, 3):
        order.wait(seconds)
        order.retry_due()
    assert [r.retry for r in order.requests] == [0, 1, 2]
    assert len({r.fence for r in order.requests}) == 1
    assert order.record.wake_at is None


def test_a_retry_before_its_time_sends_nothing() -> None:
    order = OneOrder("s1")
    order.claim()
    order.wait(2.9)
    assert not order.retry_due().changed


def test_a_retry_at_the_deadline_is_not_sent_and_not_seen_again() -> None:
    order = OneOrder("s1")
    order.claim()
    order.wait(10)
    order.retry_due()
    assert (len(order.requests), order.record.wake_at) == (1, None)
    assert not order.retry_due().changed


def test_an_answered_attempt_is_not_sent_again() -> None:
    order = OneOrder("s1")
    order.claim()
    order.fail("transient")
    order.wait(3)
    assert not order.retry_due().changed


def test_without_retries_there_is_no_timer() -> None:
    order = OneOrder("s1", policy=Policy(max_retries=0))
    order.claim()
    assert order.record.wake_at is None
