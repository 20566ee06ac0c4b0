"""What a client and what operators are told of an order that could not be undone: its steps, and data that fits."""

from __future__ import annotations

import dataclasses
import json

import pytest
from msgspec.structs import replace

from triumvir.contracts.account import Account, to_text
from triumvir.lifecycle import OrderRecord, StepRecord, undo_account
from triumvir.runtime.accounts import KEPT_BACK, MOST_IN_ALL, MOST_OF_A_VALUE, for_client, for_operators
from triumvir.workflow import Step, Workflow

WORKFLOW = Workflow(
    "w",
    1,
    [
        Step("reserve", agent="a", operation="reserve", undo="release"),
        Step("charge", agent="a", operation="charge", undo="refund", select={"amount": "payload.total"}),
        Step("ship", agent="a", operation="ship", undo="recall"),
    ],
)
STEPS = (
    StepRecord(1, 1, "completed", 1, "certain", '{"shelf":7}'),
    StepRecord(2, 1, "completed", 2, "certain", '"c-1"', None, "undo_failed", 3, undo_error="closed"),
    StepRecord(3, 1, "failed", 1, "unknown", None, "no answer", "undone"),
)
ORDER = OrderRecord(7, "shop-a", "one", "w", 1, state="compensation_failed", steps=STEPS)


def told(record: OrderRecord = ORDER, payload: str | None = '{"total":5}') -> Account:
    found = for_operators(to_text(undo_account(record, WORKFLOW)), record, WORKFLOW, payload)
    assert found is not None
    return found


def test_operators_get_the_payload_and_of_each_step_what_it_was_given_and_what_it_returned() -> None:
    found = told()
    assert found.payload is not None
    assert found.payload.text == '{"total":5}'
    given = [step.argument and step.argument.value for step in found.steps]
    returned = [step.result and step.result.value for step in found.steps]
    assert (given, returned) == ([None, {"amount": 5}, None], [{"shelf": 7}, "c-1", None])
    assert found.left_out == ()


def test_a_client_gets_what_became_of_each_step_and_nothing_else() -> None:
    found = for_client(to_text(undo_account(ORDER, WORKFLOW)))
    assert found is not None
    assert [json.loads(step.model_dump_json()) for step in found] == [
        {"step": "reserve", "effect": "certain", "outcome": "not_undone"},
        {"step": "charge", "effect": "certain", "outcome": "failed"},
        {"step": "ship", "effect": "unknown", "outcome": "undone"},
    ]


def test_what_has_no_account_is_told_without_one() -> None:
    assert for_client(None) is None
    assert for_operators(None, ORDER, WORKFLOW, "{}") is None


def test_a_value_that_is_too_large_is_named_instead() -> None:
    large = json.dumps("x" * MOST_OF_A_VALUE)
    steps = (replace(STEPS[0], result=large), *STEPS[1:])
    found = told(replace(ORDER, steps=steps), json.dumps({"total": "y" * MOST_OF_A_VALUE}))
    assert found.payload is None
    assert found.steps[0].result is None
    assert found.left_out == (
        f"payload: {MOST_OF_A_VALUE + 13} characters",
        f"result of reserve: {len(large)} characters",
        f"argument of charge: {MOST_OF_A_VALUE + 13} characters",
    )


def test_the_data_of_a_thousand_steps_fits_into_one_alert() -> None:
    workflow = Workflow("w", 1, [Step(f"s{n}", agent="a", operation="x", undo="y") for n in range(1000)])
    result = json.dumps("x" * (MOST_OF_A_VALUE - 2))
    steps = tuple(StepRecord(n, 1, "completed", 1, "certain", result) for n in range(1, 1001))
    record = replace(ORDER, steps=steps)
    found = for_operators(to_text(undo_account(record, workflow)), record, workflow, None)
    assert found is not None
    shown = [step for step in found.steps if step.result is not None]
    assert len(shown) == MOST_IN_ALL // MOST_OF_A_VALUE
    assert len(found.left_out) == 1001 - len(shown)


def test_a_selection_that_cannot_be_worked_out_says_why_and_the_rest_is_told() -> None:
    found = told(payload=None)
    assert found.left_out == ("payload: it is not at hand", "argument of charge: the payload is not at hand")
    assert found.steps[0].result is not None


@pytest.mark.parametrize("workflow", [None, dataclasses.replace(WORKFLOW, classification="confidential")])
def test_data_of_a_confidential_workflow_or_of_an_unknown_one_is_kept_back(workflow: Workflow | None) -> None:
    found = for_operators(to_text(undo_account(ORDER, WORKFLOW)), ORDER, workflow, '{"total":5}')
    assert found is not None
    assert (found.payload, found.left_out) == (None, (KEPT_BACK,))
    assert {(step.argument, step.result) for step in found.steps} == {(None, None)}
    assert [step.outcome for step in found.steps] == ["not_undone", "failed", "undone"]
