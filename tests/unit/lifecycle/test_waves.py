"""Undos at the same time: one attempt, and for each entry a deadline, re-sends, tries and an end of its own."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.unit.lifecycle.one_order import START, OneOrder
from triumvir.lifecycle import Expired, OperatorAsked, Policy, PolicyLine, Revived, Shown
from triumvir.workflow import UndoOrder

BROKEN = 5
"""The number of the step that fails; the four before it completed."""


def undoing(
    undo_order: UndoOrder = "parallel", *, ranks: tuple[int, ...] = (), policy: Policy | None = None
) -> OneOrder:
    """Four steps completed, the fifth failed for good without effect: the first undos are under way."""
    ranks = (*ranks, 9) if ranks else ()
    names = [f"s{n}" for n in range(1, BROKEN + 1)]
    order = OneOrder(*names, on_error="compensate", policy=policy, undo_order=undo_order, ranks=ranks)
    order.claim()
    for _ in names[1:]:
        order.succeed({"ok": True})
    order.fail()
    order.claim()
    return order


def out(order: OneOrder) -> list[int]:
    """The undos under way."""
    return [each.step_no for each in order.record.under_way]


def sent(order: OneOrder) -> list[int]:
    """Undos sent for the first time in their attempt, in order."""
    return [r.step_no for r in order.requests if r.direction == "undo" and r.retry == 0]


def succeed(order: OneOrder, *step_nos: int) -> None:
    for step_no in step_nos:
        order.reply(order.success(step_no=step_no))


def fail(order: OneOrder, step_no: int, kind: str = "transient") -> None:
    order.reply(order.failure("permanent" if kind == "permanent" else "transient", step_no=step_no))


def expire(order: OneOrder, *begun: int) -> None:
    """The last deadline passes; of the undos under way the inbox shows these as begun."""
    assert order.record.complete_by is not None
    order.now = max(order.now, order.record.complete_by)
    order.on(Expired(False, undos=tuple(Shown(n, n in begun, 1) for n in out(order))))


def states(order: OneOrder) -> list[str | None]:
    return [order.entry(n).undo_state for n in range(1, BROKEN)]


def test_in_parallel_all_undos_go_out_under_one_attempt() -> None:
    order = undoing()
    assert (sent(order), out(order)) == ([4, 3, 2, 1], [4, 3, 2, 1])
    assert len({request.fence for request in order.requests if request.direction == "undo"}) == 1
    succeed(order, 2, 4, 1)
    assert (order.state, out(order)) == ("compensating", [3])
    succeed(order, 3)
    assert (order.state, order.record.attempt, sent(order)) == ("compensated", 2, [4, 3, 2, 1])


def test_by_rank_the_lowest_goes_first_and_equal_ones_go_together() -> None:
    order = undoing("by-rank", ranks=(2, 1, 2, 1))
    assert out(order) == [4, 2]
    succeed(order, 2)
    assert out(order) == [4]
    succeed(order, 4)
    assert out(order) == [3, 1]
    succeed(order, 1, 3)
    assert (order.state, order.record.attempt) == ("compensated", 2)


def test_of_several_undos_the_order_shows_the_latest_deadline_and_the_earliest_re_send() -> None:
    lines = (
        PolicyLine(("w", "s2", "undo-s2"), "timeout-duration", timedelta(seconds=90), "test"),
        PolicyLine(("w", "s3", "undo-s3"), "initial-retry-interval", timedelta(seconds=1), "test"),
    )
    order = undoing(policy=Policy(jitter_factor=0, lines=lines))
    assert order.record.complete_by == START + timedelta(seconds=90)
    assert order.record.wake_at == START + timedelta(seconds=1)
    succeed(order, 2, 3)
    assert order.record.complete_by == START + timedelta(seconds=10)
    assert order.record.wake_at == START + timedelta(seconds=3)


def test_each_undo_is_sent_again_in_its_own_time() -> None:
    lines = (PolicyLine(("w", "s3", "undo-s3"), "initial-retry-interval", timedelta(seconds=1), "test"),)
    order = undoing(policy=Policy(jitter_factor=0, lines=lines))
    order.wait(1)
    order.retry_due()
    again = [(r.step_no, r.retry) for r in order.requests if r.retry]
    assert again == [(3, 1)]
    assert [order.entry(n).undo_retries for n in range(1, BROKEN)] == [0, 0, 1, 0]
    succeed(order, 3)
    order.wait(2)
    order.retry_due()
    assert [(r.step_no, r.retry) for r in order.requests if r.retry] == [(3, 1), (4, 1), (2, 1), (1, 1)]


def test_a_revival_brings_forward_the_re_sends_that_are_later_than_its_delay() -> None:
    lines = (PolicyLine(("w", "s3", "undo-s3"), "initial-retry-interval", timedelta(seconds=1), "test"),)
    policy = Policy(
        jitter_factor=0,
        retry_interval=timedelta(seconds=8),
        action_recovery_delay=timedelta(seconds=2),
        lines=lines,
    )
    order = undoing(policy=policy)
    succeed(order, 1)
    order.on(Revived())
    wakes = [order.entry(n).undo_wake_at for n in range(1, BROKEN)]
    soon, sooner = START + timedelta(seconds=2), START + timedelta(seconds=1)
    assert wakes == [None, soon, sooner, soon]
    assert order.record.wake_at == sooner
    order.wait(2)
    order.retry_due()
    assert sorted((r.step_no, r.retry) for r in order.requests if r.retry) == [(2, 1), (3, 1), (4, 1)]


def test_an_answer_after_its_own_deadline_is_late_while_others_are_still_in_time() -> None:
    lines = (PolicyLine(("w", "s2", "undo-s2"), "timeout-duration", timedelta(seconds=90), "test"),)
    order = undoing(policy=Policy(jitter_factor=0, lines=lines))
    order.wait(10)
    succeed(order, 1)
    assert (order.last.late, order.entry(1).undo_state) == (True, "undoing")
    succeed(order, 2)
    assert order.entry(2).undo_state == "undone"


def test_what_failed_is_tried_again_and_what_is_undone_is_not() -> None:
    order = undoing()
    fail(order, 3)
    assert order.state == "compensating"
    succeed(order, 4, 2, 1)
    assert order.record.complete_by == order.now
    expire(order, 3)
    assert (order.record.locked_by, order.entry(3).undo_tries) == (None, 1)
    order.wait(1)
    order.claim()
    assert (out(order), sent(order)) == ([3], [4, 3, 2, 1, 3])
    succeed(order, 3)
    assert (order.state, order.record.attempt) == ("compensated", 3)


def test_an_attempt_that_failed_waits_for_the_longest_back_off_of_its_undos() -> None:
    order = undoing()
    succeed(order, 1, 2)
    expire(order, 4)
    order.wait(1)
    order.claim()
    expire(order, 4, 3)
    assert [order.entry(n).undo_tries for n in (4, 3)] == [2, 1]
    assert order.record.not_before == order.now + timedelta(seconds=2)


def test_an_undo_that_nobody_began_counts_no_try_beside_one_that_was_begun() -> None:
    order = undoing()
    expire(order, 2)
    assert [order.entry(n).undo_tries for n in range(1, BROKEN)] == [0, 1, 0, 0]


def test_if_no_undo_was_begun_nothing_is_counted() -> None:
    order = undoing()
    expire(order)
    assert [order.entry(n).undo_tries for n in range(1, BROKEN)] == [0, 0, 0, 0]
    assert order.record.unbegun_count == 1


def test_an_undo_that_fails_for_good_keeps_none_of_its_wave_from_being_undone() -> None:
    order = undoing()
    fail(order, 3, "permanent")
    assert (order.state, out(order)) == ("compensating", [4, 2, 1])
    fail(order, 2)
    succeed(order, 4, 1)
    expire(order, 2)
    order.wait(1)
    order.claim()
    assert out(order) == [2]
    succeed(order, 2)
    assert (order.state, order.record.step) == ("compensation_failed", 3)
    assert states(order) == ["undone", "undone", "undo_failed", "undone"]
    assert order.alerts == ["compensation-failed"]


def test_later_ranks_wait_for_an_undo_that_failed_for_good() -> None:
    order = undoing("by-rank", ranks=(2, 1, 2, 1))
    fail(order, 4, "permanent")
    succeed(order, 2)
    assert (order.state, states(order)) == ("compensation_failed", [None, "undone", None, "undo_failed"])


def test_resuming_goes_on_at_every_undo_that_failed() -> None:
    order = undoing("by-rank", ranks=(1, 2, 1, 1))
    fail(order, 4, "permanent")
    fail(order, 1, "permanent")
    succeed(order, 3)
    assert (order.state, states(order)) == (
        "compensation_failed",
        ["undo_failed", None, "undone", "undo_failed"],
    )
    order.on(OperatorAsked("resume", "an operator"))
    order.claim()
    assert out(order) == [4, 1]
    succeed(order, 1, 4, 2)
    assert (order.state, sent(order)) == ("compensated", [4, 3, 1, 4, 1, 2])


def test_skipping_one_of_several_failed_undos_tries_the_others_anew() -> None:
    order = undoing()
    fail(order, 4, "permanent")
    fail(order, 1, "permanent")
    succeed(order, 3, 2)
    skipped = order.record.step
    order.on(OperatorAsked("skip", "an operator"))
    assert (order.state, order.entry(skipped or 0).by_hand) == ("compensating", True)
    order.claim()
    succeed(order, *({4, 1} - {skipped}))
    assert (order.state, states(order)) == ("compensated", ["undone"] * 4)


def test_undos_whose_agent_is_there_go_and_the_rest_is_held_afterwards() -> None:
    order = OneOrder("s1", "s2", "s3", "s4", "s5", on_error="compensate", undo_order="parallel")
    order.claim()
    for _ in range(4):
        order.succeed()
    order.fail()
    order.holds = {"undo-s2": "operation:a/undo-s2"}
    order.claim()
    assert (out(order), order.record.held_by) == ([4, 3, 1], None)
    succeed(order, 1, 3, 4)
    assert (order.state, order.record.held_by) == ("compensating", "operation:a/undo-s2")
    order.holds = {}
    order.release()
    order.claim()
    succeed(order, 2)
    assert (order.state, sent(order)) == ("compensated", [4, 3, 1, 2])


def test_an_operation_that_is_unknown_burns_nothing_while_others_are_under_way() -> None:
    order = undoing()
    unknown = order.failure("refused", calls=0, reason="unknown_operation", step_no=2)
    order.reply(unknown)
    assert (order.record.held_by, out(order)) == (None, [4, 3, 2, 1])
    succeed(order, 4, 3, 1)
    expire(order)
    assert (order.entry(2).undo_tries, order.record.unbegun_count, order.record.locked_by) == (0, 1, None)
    order.claim()
    order.refuse("unknown_operation")
    assert order.record.held_by == "operation:a/undo-s2"


def test_a_doubled_answer_changes_nothing() -> None:
    order = undoing()
    for reply in (order.success(step_no=2), order.failure("permanent", step_no=3)):
        order.reply(reply)
        assert not order.reply(reply).changed


def late_in_parallel() -> tuple[OneOrder, list[int]]:
    """The second step never answered; both are being undone at the same time. The replies are built before."""
    order = OneOrder("s1", "s2", on_error="compensate", policy=Policy(max_failures=0), undo_order="parallel")
    order.claim()
    order.succeed()
    return order, [2, 1]


def test_a_late_success_starts_its_undo_anew_once_the_others_are_answered() -> None:
    order, both = late_in_parallel()
    late = order.success()
    order.expire()
    order.claim()
    assert out(order) == both
    first_undo = order.success(step_no=2)
    order.reply(late)
    assert (out(order), order.entry(2).undo_generation) == ([1], 1)
    assert order.reply(first_undo).late
    succeed(order, 1)
    assert (order.state, order.record.locked_by) == ("compensating", None)
    order.claim()
    assert out(order) == [2]
    assert order.reply(first_undo).late
    succeed(order, 2)
    assert (order.state, order.entry(2).undo_state) == ("compensated", "undone")


def test_a_late_success_after_its_undo_reopens_it_although_others_are_under_way() -> None:
    order, _ = late_in_parallel()
    late = order.success()
    order.expire()
    order.claim()
    succeed(order, 2)
    order.reply(late)
    assert (out(order), order.alerts) == ([1], ["late-success"])
    succeed(order, 1)
    order.claim()
    assert out(order) == [2]
    succeed(order, 2)
    assert order.state == "compensated"


def test_an_order_that_breaks_takes_all_its_undos_along() -> None:
    order = undoing()
    succeed(order, 4)
    order.break_()
    assert (order.state, states(order)) == (
        "compensation_failed",
        ["undo_failed", "undo_failed", "undo_failed", "undone"],
    )


@pytest.mark.parametrize("undo_order", ["reverse", "parallel"])
def test_an_undo_that_an_earlier_release_sent_is_waited_for_as_the_order_says(undo_order: UndoOrder) -> None:
    """It wrote the order's row, and of the entry no more than that it is being undone."""
    order = undoing(undo_order)
    entry = replace(
        order.entry(4),
        undo_attempt=0,
        undo_sent_at=None,
        undo_complete_by=None,
        undo_wake_at=None,
        undo_retries=0,
    )
    for step_no in (1, 2, 3):
        order.record = order.record.with_step(
            replace(order.entry(step_no), undo_state=None, undo_complete_by=None)
        )
    order.record = order.record.with_step(entry)
    assert out(order) == [4]
    assert order.record.under_way[0].complete_by == order.record.complete_by
    order.wait(3)
    order.retry_due()
    assert (order.requests[-1].step_no, order.requests[-1].retry) == (4, 1)
    succeed(order, 4)
    assert order.entry(4).undo_state == "undone"
