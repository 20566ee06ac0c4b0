"""Undoing: what, in which order, how often; and successes that come too late for it."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from tests.unit.lifecycle.one_order import OneOrder
from triumvir.lifecycle import Policy


def undoing(*steps: str) -> OneOrder:
    """All but the last step completed, the last one failed for good, the first undo is under way."""
    order = OneOrder(*steps, on_error="compensate")
    order.claim()
    for _ in steps[1:]:
        order.succeed({"ok": True})
    order.fail()
    order.claim()
    return order


def test_compensation_with_nothing_begun_ends_compensated_with_zero_undos() -> None:
    order = OneOrder("s1", on_error="compensate")
    order.claim()
    order.fail(calls=0)
    order.claim()
    assert (order.state, order.statuses) == ("compensated", ["compensating", "compensated"])
    assert [r.direction for r in order.requests] == ["do"]


def test_steps_are_undone_from_the_last_to_the_first() -> None:
    order = undoing("s1", "s2", "s3")
    order.succeed()
    order.succeed()
    assert order.state == "compensated"
    assert [r.step_no for r in order.requests if r.direction == "undo"] == [2, 1]
    assert [order.entry(n).undo_state for n in (1, 2, 3)] == ["undone", "undone", None]


def test_a_step_in_doubt_is_undone_too() -> None:
    order = OneOrder("s1", on_error="compensate", policy=Policy(max_failures=0))
    order.claim()
    order.expire()
    order.claim()
    assert (order.requests[-1].step_no, order.requests[-1].direction) == (1, "undo")


def test_a_step_without_undo_is_passed_over() -> None:
    order = undoing("s1", "check-2", "s3")
    assert order.requests[-1].step_no == 1


def test_a_new_attempt_with_a_higher_fence_undoes() -> None:
    order = OneOrder("s1", "s2", on_error="compensate")
    order.claim()
    order.succeed()
    forward = order.record
    order.fail()
    order.claim()
    assert order.record.fence > forward.fence
    assert (order.record.attempt, order.record.locked_by != forward.locked_by) == (2, True)


def test_an_undo_that_fails_is_tried_again_after_a_back_off() -> None:
    order = undoing("s1", "s2")
    order.fail("transient")
    assert order.last.log[-1].why.startswith("undo of s1 failed, may work later: ")
    order.expire()
    assert (order.state, order.record.locked_by, order.entry().undo_tries) == ("compensating", None, 1)
    assert order.record.not_before == order.now + timedelta(seconds=1)
    order.claim()
    order.succeed()
    assert order.state == "compensated"


def test_an_undo_that_failed_too_often_rests_with_an_alert() -> None:
    order = undoing("s1", "s2")
    while order.state == "compensating":
        order.expire()
        order.wait(60)
        order.claim()
    undos = [r for r in order.requests if r.direction == "undo"]
    assert (order.state, len(undos)) == ("compensation_failed", order.policy.max_failures + 1)
    assert (order.alerts, order.statuses[-1]) == (["compensation-failed"], "compensation_failed")
    assert order.entry().undo_state == "undo_failed"


def test_a_permanent_failure_of_an_undo_rests_at_once() -> None:
    order = undoing("s1", "s2", "s3")
    order.fail()
    assert (order.state, order.entry(2).undo_state) == ("compensation_failed", "undo_failed")
    assert order.entry(1).undo_state is None


def test_an_undo_that_nobody_began_burns_nothing_and_alerts_at_the_third() -> None:
    order = undoing("s1", "s2")
    for _ in range(3):
        order.expire(begun=False, calls=0)
        order.claim()
    assert (order.entry().undo_tries, order.alerts) == (0, ["never-begun"])


def test_an_undo_that_was_answered_counts_even_if_the_inbox_shows_no_call() -> None:
    order = undoing("s1", "s2")
    order.fail("transient", calls=0)
    order.expire(begun=False, calls=0)
    assert order.entry().undo_tries == 1


def test_a_late_success_after_undone_reopens_under_a_new_generation_of_the_undo() -> None:
    order = OneOrder("s1", on_error="compensate", policy=Policy(max_failures=0))
    order.claim()
    late = order.success({"id": 7})
    order.expire()
    order.claim()
    order.succeed()
    assert order.state == "compensated"
    order.reply(late)
    assert (order.state, order.alerts, order.statuses[-1]) == (
        "compensating",
        ["late-success"],
        "compensating",
    )
    assert (order.entry().effect, order.entry().undo_state) == ("certain", None)
    assert (order.entry().undo_generation, order.entry().result) == (1, '{"id":7}')
    assert order.record.ended_at is None
    order.claim()
    order.succeed()
    assert order.state == "compensated"
    assert not order.reply(late).changed


def test_a_late_success_of_a_purged_order_that_was_undone_is_told_to_people_and_moves_nothing() -> None:
    order = OneOrder("s1", on_error="compensate", policy=Policy(max_failures=0))
    order.claim()
    late = order.success({"id": 7})
    order.expire()
    order.claim()
    order.succeed()
    order.record = replace(order.record, steps=())
    order.reply(late)
    assert (order.state, order.alerts) == ("compensated", ["late-success"])
    assert order.record.steps == ()


def test_a_doubled_success_of_a_purged_order_that_was_processed_is_nothing() -> None:
    order = OneOrder("s1")
    order.claim()
    late = order.success({"id": 7})
    order.reply(late)
    assert order.state == "processed"
    order.record = replace(order.record, steps=())
    assert not order.reply(late).changed


def test_a_late_success_reopens_a_cancelled_order() -> None:
    order = OneOrder("s1", on_error="compensate")
    order.claim()
    late = order.success()
    order.refuse("unknown_operation")
    order.cancel()
    ended = order.state
    order.reply(late)
    assert (ended, order.state, order.entry().undo_generation) == ("cancelled", "compensating", 0)
    order.claim()
    assert order.requests[-1].direction == "undo"


def test_a_late_success_while_its_undo_runs_starts_the_undo_anew() -> None:
    order = OneOrder("s1", on_error="compensate", policy=Policy(max_failures=0))
    order.claim()
    late = order.success()
    order.expire()
    order.claim()
    first = order.success()
    order.reply(late)
    assert (order.state, order.record.locked_by, order.entry().undo_generation) == ("compensating", None, 1)
    assert order.reply(first).late
    order.claim()
    assert order.record.attempt == 3
    order.succeed()
    assert order.state == "compensated"


def test_an_undo_reopened_while_an_earlier_one_runs_needs_a_new_attempt() -> None:
    order = OneOrder("s1", "s2", on_error="compensate", policy=Policy(max_failures=0))
    order.claim()
    order.succeed()
    late = order.success()
    order.expire()
    order.claim()
    undone = order.success()
    order.reply(undone)
    assert order.record.step == 1
    order.reply(late)
    assert (order.record.step, order.alerts) == (1, ["late-success"])
    order.succeed()
    assert (order.state, order.record.locked_by) == ("compensating", None)
    order.claim()
    assert order.record.step == 2
    assert order.reply(undone).late
    assert order.entry(2).undo_state == "undoing"
    order.succeed()
    assert order.state == "compensated"


def test_a_late_success_before_its_undo_needs_no_new_generation() -> None:
    order = OneOrder("s1", "s2", on_error="compensate", policy=Policy(max_failures=1))
    order.claim()
    late = order.success()
    order.reopen()
    order.reply(late)
    assert (order.entry().effect, order.entry().state, order.state) == ("certain", "running", "processing")
    order.fail()
    order.claim()
    assert (order.entry().undo_state, order.entry().undo_generation) == ("undoing", 0)


def test_a_late_success_in_compensation_failed_alerts_and_frees_the_used_key() -> None:
    order = OneOrder("s1", "s2", on_error="compensate", policy=Policy(max_failures=0))
    order.claim()
    order.succeed()
    late = order.success()
    order.expire()
    order.claim()
    order.succeed()
    order.fail()
    before = order.state
    order.reply(late)
    assert (before, order.state) == ("compensation_failed", "compensation_failed")
    assert order.alerts == ["compensation-failed", "late-success"]
    assert (order.entry(2).undo_state, order.entry(2).undo_generation) == (None, 1)


def test_a_late_success_of_the_running_step_is_kept_for_the_next_attempt() -> None:
    order = OneOrder("s1")
    order.claim()
    late = order.success({"id": 7})
    order.wait(10)
    order.reply(late)
    assert (order.state, order.entry().state, order.entry().effect) == ("processing", "running", "certain")
    order.expire()
    assert (order.state, order.entry().effect, order.entry().result) == ("pending", "certain", '{"id":7}')
