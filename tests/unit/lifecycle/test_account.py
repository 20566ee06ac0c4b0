"""The account of an order that could not be undone: of each step what it left, and what became of that."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import uuid4

import pytest
from msgspec.structs import replace

from tests.unit.lifecycle.one_order import START, OneOrder
from triumvir.contracts.account import UndoAccount, of_text, to_text
from triumvir.lifecycle import Broken, Decision, Moment, Policy, StepRecord, account_summary, undo_account
from triumvir.lifecycle.account import undo_outcome
from triumvir.lifecycle.decide import set_aside


def could_not_be_undone() -> OneOrder:
    """``ship`` is undone, ``charge`` cannot be, ``reserve`` waits for it, ``check`` has no undo; ``post`` failed."""
    order = OneOrder("reserve", "check", "charge", "ship", "post", on_error="compensate")
    order.claim()
    for _ in range(4):
        order.succeed({"ok": True})
    order.fail("permanent", effect="none")
    order.claim()
    order.succeed()
    order.fail("permanent")
    return order


def written(order: OneOrder) -> tuple[UndoAccount, ...]:
    """What the last row of the history says."""
    text = order.last.log[-1].account
    assert text is not None
    return of_text(text)


def test_an_order_that_cannot_be_undone_says_of_each_step_what_became_of_it() -> None:
    order = could_not_be_undone()
    assert order.state == "compensation_failed"
    assert [(step.step, step.effect, step.outcome) for step in written(order)] == [
        ("reserve", "certain", "not_undone"),
        ("check", "certain", "no_undo"),
        ("charge", "certain", "failed"),
        ("ship", "certain", "undone"),
        ("post", "none", "not_needed"),
    ]


def test_the_account_tells_errors_and_calls_of_both_directions() -> None:
    order = could_not_be_undone()
    charge, post = written(order)[2], written(order)[4]
    assert (charge.undo, charge.undo_error) == ("undo-charge", order.entry(3).undo_error)
    assert (charge.calls, charge.undo_calls) == (order.entry(3).calls, order.entry(3).undo_calls)
    assert (charge.undo_calls > 0, post.error) == (True, order.entry(5).error)


def test_no_other_move_writes_an_account() -> None:
    order = OneOrder("a", "b", on_error="compensate")
    moves: list[Callable[[], Decision]] = [
        order.claim,
        order.succeed,
        partial(order.fail, "permanent"),
        order.claim,
        order.succeed,
    ]
    rows = [row for move in moves for row in move().log]
    assert order.state == "compensated"
    assert {row.account for row in rows} == {None}


def test_a_late_success_in_doubt_is_told_as_such() -> None:
    assert undo_outcome("undo", "unknown", None) == "not_undone"
    assert undo_outcome("undo", "unknown", "undoing") == "not_undone"
    assert undo_outcome(None, "unknown", None) == "no_undo"
    assert undo_outcome("undo", "certain", "undone") == "undone"


def test_long_errors_are_cut_so_that_a_thousand_steps_fit_into_an_alert() -> None:
    order = could_not_be_undone()
    order.record = order.record.with_step(replace(order.entry(3), undo_error="x" * 10_000))
    assert len(undo_account(order.record, order.workflow)[2].undo_error or "") == 1001


def test_what_is_kept_in_the_history_has_no_data_and_comes_back_as_it_was() -> None:
    steps = written(could_not_be_undone())
    assert of_text(to_text(steps)) == steps
    assert "argument" not in to_text(steps)
    assert '"result"' not in to_text(steps)


def test_the_summary_names_what_is_left_and_nothing_that_needs_nothing() -> None:
    said = account_summary(written(could_not_be_undone()))
    assert said == (
        "undone: ship; undo failed: charge; not undone: reserve; left as it is, without an undo: check"
    )


@pytest.mark.parametrize("steps", [3, 12])
def test_an_order_whose_definition_cannot_be_read_is_accounted_for_by_numbers(steps: int) -> None:
    order = could_not_be_undone()
    entries = tuple(StepRecord(n, 1, "completed", 1, "certain", "1") for n in range(1, steps + 1))
    order.record = replace(order.record, state="compensating", locked_by=None, steps=entries)
    decision = set_aside(order.record, "it cannot be read", Moment(START, uuid4()), Policy())
    said = of_text(decision.log[-1].account or "")
    assert [step.step for step in said] == [f"step-{n}" for n in range(1, steps + 1)]
    assert {step.outcome for step in said} == {"not_undone"}


def test_an_order_that_is_set_aside_while_it_is_undone_says_so_too() -> None:
    order = OneOrder("a", "b", on_error="compensate")
    order.claim()
    order.succeed()
    order.fail("permanent")
    order.claim()
    order.on(Broken("no more"))
    assert [(step.step, step.outcome) for step in written(order)] == [("a", "failed"), ("b", "not_needed")]
