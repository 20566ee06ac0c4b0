"""Replies: the awaited one moves the order, any other moves nothing."""

from __future__ import annotations

from uuid import UUID

import pytest
from msgspec.structs import replace

from tests.unit.lifecycle.one_order import OneOrder
from triumvir.contracts.messages import StepReply
from triumvir.lifecycle import OrderRecord


def but_history(record: OrderRecord) -> OrderRecord:
    return replace(record, history=0)


def test_a_late_failure_of_a_dead_attempt_changes_nothing_but_history() -> None:
    order = OneOrder("s1")
    order.claim()
    late = order.failure()
    order.reopen()
    before = order.record
    decision = order.reply(late)
    assert but_history(order.record) == but_history(before)
    assert (decision.late, decision.sends, len(decision.log)) == (True, (), 1)


@pytest.mark.parametrize("change", [{"lock": UUID(int=99)}, {"fence": 1}, {"step_no": 2}])
def test_a_reply_with_another_lock_fence_or_step_is_late(change: dict[str, object]) -> None:
    order = OneOrder("s1", "s2")
    order.claim()
    before = order.record
    order.reply(order.failure("transient").model_copy(update=change))
    assert but_history(order.record) == but_history(before)
    assert order.last.late


@pytest.mark.parametrize("change", [{"client": "another"}, {"order_id": "another"}])
def test_a_success_of_an_order_that_had_this_number_before_a_restore_is_not_taken_for_ours(
    change: dict[str, object],
) -> None:
    order = OneOrder("s1")
    order.claim()
    of_another = order.success().model_copy(update=change)
    assert not order.reply(of_another).changed
    order.reopen()
    assert not order.reply(of_another).changed  # as a late success it would have become this order's result


def test_an_answer_to_an_undo_does_not_count_for_the_step() -> None:
    order = OneOrder("s1")
    order.claim()
    undo = order.success().model_copy(update={"direction": "undo"})
    assert not order.reply(undo).changed


def test_a_reply_at_the_deadline_is_late() -> None:
    order = OneOrder("s1")
    order.claim()
    reply = order.failure()
    order.wait(10)
    before = order.record
    assert order.reply(reply).late
    assert but_history(order.record) == but_history(before)


def test_a_doubled_reply_is_not_even_history() -> None:
    order = OneOrder("s1", "s2")
    order.claim()
    replies: list[StepReply] = [order.success(), order.failure("transient")]
    order.reply(replies[0])
    assert not order.reply(replies[0]).changed
    transient = order.failure("transient")
    order.reply(transient)
    assert not order.reply(transient).changed


def test_a_stale_refusal_is_late() -> None:
    order = OneOrder("s1")
    order.claim()
    before = order.record
    assert order.refuse("stale").late
    assert but_history(order.record) == but_history(before)


def test_no_time_left_takes_the_road_of_a_deadline() -> None:
    order = OneOrder("s1")
    order.claim()
    order.refuse("no_time")
    assert (order.state, order.record.complete_by, order.record.wake_at) == ("processing", order.now, None)
    order.expire(begun=False)
    assert (order.state, order.record.failure_count) == ("pending", 0)


def test_an_unknown_operation_holds_the_order_and_burns_nothing() -> None:
    order = OneOrder("s1")
    order.claim()
    order.refuse("unknown_operation")
    assert (order.state, order.record.held_by) == ("pending", "operation:a/s1")
    assert (order.record.failure_count, order.entry().effect, order.statuses) == (0, "none", ["held"])


def test_an_unknown_undo_holds_the_order_by_the_name_of_the_undo() -> None:
    order = OneOrder("s1", "s2", on_error="compensate")
    order.claim()
    order.succeed()
    order.fail()
    order.claim()
    order.refuse("unknown_operation")
    assert (order.state, order.record.held_by) == ("compensating", "operation:a/undo-s1")
    assert order.entry().undo_tries == 0


def test_a_permanent_failure_with_halt_rests_with_an_alert() -> None:
    order = OneOrder("s1")
    order.claim()
    order.fail()
    assert (order.state, order.statuses, order.alerts) == ("error", ["failed"], ["order-halted"])
    assert order.last.log[-1].why == "s1 failed: no luck"


def test_a_transient_failure_ends_the_attempt_and_waits_for_the_supervisor() -> None:
    order = OneOrder("s1")
    order.claim()
    order.fail("transient", "unknown")
    assert (order.state, order.record.complete_by) == ("processing", order.now)
    assert (order.entry().state, order.entry().effect) == ("failed", "unknown")
    order.expire()
    assert (order.state, order.record.failure_count) == ("pending", 1)


def test_an_answered_failure_is_counted_even_if_the_inbox_shows_no_call() -> None:
    order = OneOrder("s1")
    order.claim()
    order.fail("transient", calls=0)
    order.expire(begun=False, calls=0)
    assert order.record.failure_count == 1


def test_doubt_stays_when_a_later_request_is_answered_with_none() -> None:
    order = OneOrder("s1")
    order.claim()
    order.reopen()
    assert order.entry().effect == "unknown"
    order.fail("permanent", "none")
    assert order.entry().effect == "unknown"


def test_every_request_answered_with_none_leaves_nothing_to_undo() -> None:
    order = OneOrder("s1", on_error="compensate")
    order.claim()
    order.fail("transient", "none")
    order.reopen()
    order.fail("permanent", "none")
    order.claim()
    assert (order.state, len(order.requests)) == ("compensated", 2)


def test_calls_never_fall() -> None:
    order = OneOrder("s1", "s2")
    order.claim()
    order.expire(calls=5)
    order.wait(60)
    order.claim()
    order.reply(order.success(calls=2))
    assert order.entry().calls == 5
