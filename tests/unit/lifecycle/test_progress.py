"""Progress: kept and told, and nothing else of the order moves."""

from __future__ import annotations

import dataclasses
from typing import Any

from msgspec.structs import replace

from tests.unit.lifecycle.one_order import OneOrder
from triumvir.contracts.messages import StepProgressed
from triumvir.lifecycle import HIDDEN, Replied, SendStatus
from triumvir.lifecycle.progress import progress_of


def report(order: OneOrder, text: str = "half", *, calls: int = 1, count: int = 1) -> StepProgressed:
    return StepProgressed(**order._head(None), calls=calls, text=text, count=count)


def begun(*steps: str, **members: Any) -> OneOrder:
    order = OneOrder(*(steps or ("a",)), progress=True, **members)
    order.claim()
    order.statuses.clear()
    return order


def kept(order: OneOrder, step_no: int = 1) -> str | None:
    progress = progress_of(order.entry(step_no))
    return None if progress is None else progress.text


def test_a_report_is_written_down_and_told_and_moves_nothing() -> None:
    order = begun()
    before = order.record
    decision = order.on(Replied(report(order, "12 of 40")))
    assert [row.why for row in decision.log] == ["a: 12 of 40"]
    assert order.statuses == ["progressed"]
    assert decision.sends == (SendStatus(order.record.history),)
    assert (order.record.history, order.record.sequence) == (before.history + 1, before.sequence + 1)
    same = replace(order.record, history=before.history, sequence=before.sequence)
    assert same.with_step(replace(order.entry(), progress=None)) == before


def test_retries_and_the_deadline_come_as_if_nothing_had_been_reported() -> None:
    order, silent = begun(), begun()
    for each in (order, silent):
        if each is order:
            order.on(Replied(report(order)))
        each.wait(3)
        each.retry_due()
    assert (
        [request.retry for request in order.requests]
        == [request.retry for request in silent.requests]
        == [0, 1]
    )
    assert (order.record.wake_at, order.record.complete_by) == (
        silent.record.wake_at,
        silent.record.complete_by,
    )
    order.expire()
    assert (order.state, order.record.failure_count) == ("pending", 1)


def test_the_answer_comes_later_under_the_same_fence() -> None:
    order = begun()
    order.on(Replied(report(order)))
    order.succeed("done")
    assert (order.state, kept(order)) == ("processed", "half")


def test_a_report_that_comes_twice_or_was_overtaken_is_dropped() -> None:
    order = begun()
    first, second = report(order, "one"), report(order, "two", count=2)
    order.on(Replied(second))
    assert not order.on(Replied(second)).changed
    assert not order.on(Replied(first)).changed
    assert kept(order) == "two"


def test_the_reports_of_a_process_that_took_over_count_anew_behind_its_call() -> None:
    order = begun()
    order.on(Replied(report(order, "nine of ten", count=9)))
    order.on(Replied(report(order, "one of ten", calls=2, count=1)))
    assert kept(order) == "one of ten"


def test_the_next_attempt_begins_to_report_anew() -> None:
    order = begun()
    late = report(order, "late", count=8)
    order.on(Replied(report(order, "first", count=7)))
    order.reopen()
    assert not order.on(Replied(late)).changed
    order.on(Replied(report(order, "second")))
    assert kept(order) == "second"


def test_a_client_is_told_once_a_second_and_all_is_kept() -> None:
    order = begun()
    for count in range(1, 6):
        order.on(Replied(report(order, f"{count} of 5", count=count)))
        order.wait(0.4)
    assert order.statuses == ["progressed"] * 2
    assert kept(order) == "5 of 5"


def test_a_client_that_asked_for_nothing_is_told_nothing() -> None:
    order = OneOrder("a")
    order.claim()
    order.on(Replied(report(order)))
    assert (order.statuses, kept(order)) == ([], "half")


def test_of_an_undo_the_operators_learn_and_the_client_does_not() -> None:
    order = begun(on_error="compensate")
    order.fail("permanent", "unknown")
    order.claim()
    order.statuses.clear()
    before = order.record
    order.on(Replied(report(order, "half refunded")))
    assert (order.statuses, order.last.log[-1].why) == ([], "a: half refunded")
    assert (order.record.wake_at, order.record.complete_by) == (before.wake_at, before.complete_by)


def test_nobody_listens_to_what_is_not_waited_for() -> None:
    order = begun("a", "b")
    early = report(order)
    order.succeed()
    assert not order.on(Replied(early)).changed
    order.wait(60)
    assert not order.on(Replied(report(order))).changed, "its time is over"


def test_of_a_confidential_order_the_step_record_alone_has_the_words() -> None:
    order = begun()
    order.workflow = dataclasses.replace(order.workflow, classification="confidential")
    order.on(Replied(report(order, "the pages of Ada Lovelace")))
    assert (order.last.log[-1].why, kept(order)) == (f"a: {HIDDEN}", "the pages of Ada Lovelace")
    assert order.statuses == ["progressed"]
    assert not order.on(Replied(report(order, "the pages of Ada Lovelace"))).changed
