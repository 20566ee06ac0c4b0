"""What agents say of a confidential order is in its step records and nowhere else."""

from __future__ import annotations

import dataclasses
from uuid import uuid4

import pytest
from msgspec.structs import replace

from tests.unit.lifecycle.one_order import START, OneOrder
from tests.unit.lifecycle.test_account import could_not_be_undone, written
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import StepProgressed
from triumvir.lifecycle import HIDDEN, Broken, Decision, Moment, Policy, Replied, set_aside
from triumvir.lifecycle.secrecy import Secret
from triumvir.workflow import Step
from triumvir.workflow.classification import Classification

SAID = "no luck"
"""What agents answer here."""


def confidential(*steps: str) -> OneOrder:
    order = OneOrder(*steps, on_error="compensate", policy=Policy(jitter_factor=0, max_failures=1))
    order.workflow = dataclasses.replace(order.workflow, classification="confidential")
    return order


def told(*decisions: Decision) -> str:
    """Everything that leaves the step records."""
    return "\n".join(f"{row.why} {row.account}" for decision in decisions for row in decision.log)


def test_an_error_is_kept_with_its_step_and_told_as_a_secret() -> None:
    order = confidential("a", "b")
    order.claim()
    said = told(order.fail("permanent"))
    assert (SAID in said, HIDDEN in said) == (False, True)
    assert order.entry(1).error == SAID
    assert type(order.entry(1).error) is str


def test_it_stays_a_secret_in_every_later_word_of_the_order() -> None:
    order = confidential("a")
    order.claim()
    first = order.fail("transient")
    again = order.expire()
    order.wait(60)
    claimed = order.claim()
    last = [order.fail("transient"), order.expire()]
    said = told(first, again, claimed, *last)
    assert SAID not in said
    assert f"attempt failed ({HIDDEN})" in said
    assert order.entry(1).error == SAID


def test_undos_inherit_it_and_so_does_the_account_of_an_order_that_could_not_be_undone() -> None:
    order = confidential("a", "b")
    order.claim()
    order.succeed({"secret": 1})
    order.fail("permanent")
    order.claim()
    said = told(order.fail("permanent"))
    assert order.state == "compensation_failed"
    assert SAID not in said
    assert [(step.undo_error, step.error) for step in written(order)] == [(HIDDEN, None), (None, HIDDEN)]
    assert (order.entry(1).undo_error, order.entry(2).error) == (SAID, SAID)


def test_the_words_of_the_lifecycle_itself_are_told() -> None:
    order = confidential("a")
    order.claim()
    assert "no answer before the deadline" in told(order.expire())


def test_what_broke_an_order_is_a_secret_too() -> None:
    order = confidential("a")
    order.claim()
    assert told(order.on(Broken("refused: the value 4711"))) == f"{HIDDEN} None"
    assert order.entry(1).error == "refused: the value 4711"


def test_a_condition_that_cannot_be_worked_out_tells_no_value() -> None:
    order = confidential("a")
    step = order.workflow.step(1)
    assert isinstance(step, Step)
    order.workflow = dataclasses.replace(
        order.workflow, steps=(dataclasses.replace(step, when="payload.total"),)
    )
    order.payload = JsonText.of({"total": "4711"})
    assert told(order.claim()).startswith(f"a cannot be run: {HIDDEN}")
    assert "must be true or false" in (order.entry(1).error or "")


def test_an_order_set_aside_without_its_definition_is_treated_as_confidential() -> None:
    order = could_not_be_undone()
    record = replace(order.record, state="compensating", locked_by=None)
    decision = set_aside(record, "it cannot be read", Moment(START, uuid4()), Policy())
    assert SAID not in told(decision)
    assert [step.undo_error for step in decision.record.steps] == [s.undo_error for s in record.steps]


@pytest.mark.parametrize("classification", ["open", "confidential"])
def test_both_kinds_of_order_go_the_same_way(classification: Classification) -> None:
    order = confidential("a", "b")
    order.workflow = dataclasses.replace(order.workflow, classification=classification)
    order.claim()
    order.succeed()
    order.fail("transient")
    order.expire()
    order.wait(60)
    order.claim()
    order.fail("permanent")
    order.claim()
    order.succeed()
    assert (order.state, order.entry(1).undo_state) == ("compensated", "undone")
    assert not any(isinstance(step.error, Secret) for step in order.record.steps)


def test_how_far_an_operation_is_stays_a_secret_too() -> None:
    order = confidential("a")
    order.claim()
    report = StepProgressed(**order._head(1), text="4711 looked up", count=1)
    assert told(order.on(Replied(report))) == f"a: {HIDDEN} None"
    assert "4711" in (order.entry(1).progress or "")
