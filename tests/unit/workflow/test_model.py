"""Definitions: each fault names the field and the fix; one definition has one spelling and one digest."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from triumvir.errors import DefinitionError
from triumvir.workflow import OnError, Step, UndoOrder, Workflow

CHARGE = Step("charge", agent="payments", operation="charge-card", undo="refund")
NAMES = st.text("abcxyz0189-", min_size=1, max_size=40)
DURATIONS = st.none() | st.integers(1, 31_536_000_000).map(lambda ms: timedelta(milliseconds=ms))
STEPS = st.builds(
    lambda name, agent, operation, undo, within, rank: Step(
        name,
        agent=agent,
        operation=operation,
        undo=None if undo == operation else undo,
        complete_within=within,
        undo_rank=None if undo is None or undo == operation else rank,
    ),
    NAMES,
    NAMES,
    NAMES,
    st.none() | NAMES,
    DURATIONS,
    st.integers(1, 1000),
)


def _workflow(
    name: str, version: int, steps: list[Step], on_error: OnError, undo_order: UndoOrder
) -> Workflow:
    ranked = steps if undo_order == "by-rank" else [replace(step, undo_rank=None) for step in steps]
    return Workflow(name, version, ranked, on_error, undo_order)


WORKFLOWS = st.builds(
    _workflow,
    NAMES,
    st.integers(1, 2**31 - 1),
    st.lists(STEPS, min_size=1, max_size=5, unique_by=lambda step: step.name),
    st.sampled_from(["halt", "compensate"]),
    st.sampled_from(["reverse", "by-rank", "parallel"]),
)


def step_with(**changes: Any) -> Step:
    members: dict[str, Any] = {"name": "charge", "agent": "payments", "operation": "charge-card"} | changes
    return Step(members.pop("name"), **members)


def workflow_with(**changes: Any) -> Workflow:
    members: dict[str, Any] = {"name": "w", "version": 1, "steps": [CHARGE], "on_error": "halt"} | changes
    return Workflow(**members)


@pytest.mark.parametrize("value", ["", "Charge", "charge card", "c" * 41, "charge\n", "ä", None, 7])
@pytest.mark.parametrize("part", ["name", "agent", "operation"])
def test_a_step_with_a_wrong_name_is_refused_by_the_name_of_the_field(part: str, value: object) -> None:
    with pytest.raises(DefinitionError, match=rf"{part} is .*; it must match \^\[a-z0-9-\]"):
        step_with(**{part: value})


def test_an_undo_is_optional_and_checked_like_an_operation() -> None:
    assert step_with(undo=None).undo is None
    with pytest.raises(DefinitionError, match="undo is 'Refund'"):
        step_with(undo="Refund")


def test_an_operation_is_not_its_own_undo() -> None:
    with pytest.raises(DefinitionError, match="undo is the operation itself; name another"):
        step_with(undo="charge-card")


@pytest.mark.parametrize(
    "value",
    [
        timedelta(0),
        timedelta(seconds=-1),
        timedelta(days=366),
        timedelta(microseconds=1500),
        10,
        "10s",
    ],
)
def test_a_time_limit_is_a_duration_of_whole_milliseconds_up_to_a_year(value: object) -> None:
    with pytest.raises(DefinitionError, match=r"step 'charge': complete_within is .*; give a timedelta"):
        step_with(complete_within=value)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"name": "W"}, "workflow name is 'W'; it must match"),
        ({"version": 0}, "workflow 'w': version is 0; give a whole number from 1"),
        ({"version": True}, "version is True"),
        ({"version": 1.0}, "version is 1.0"),
        ({"version": 2**31}, "version is 2147483648"),
        ({"on_error": "stop"}, "on_error is 'stop'; give 'halt' or 'compensate'"),
        ({"on_error": None}, "on_error is None"),
        ({"undo_order": "backwards"}, "undo_order is 'backwards'; give 'reverse', 'by-rank' or 'parallel'"),
        (
            {"undo_order": "by-rank"},
            "workflow 'w': step 'charge': undo_rank is missing; add one of 1 to 1000: the workflow is undone by rank",
        ),
        (
            {"steps": [step_with(undo="refund", undo_rank=1)]},
            "undo_rank says nothing where undo_order is reverse; make that by-rank",
        ),
        ({"steps": []}, "0 steps; give 1 to 1000"),
        ({"steps": [step_with(name=f"s{n}") for n in range(1001)]}, "1001 steps; give 1 to 1000"),
        ({"steps": None}, "steps is None; give a list of steps"),
        ({"steps": CHARGE}, "give a list of steps"),
        ({"steps": ["charge"]}, "'charge' is not a Step; write Step"),
        ({"steps": [CHARGE, step_with(operation="other")]}, "two steps are named 'charge'; rename one"),
    ],
)
def test_a_wrong_workflow_is_refused_with_the_field_and_the_fix(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(DefinitionError) as refusal:
        workflow_with(**changes)
    assert fault in str(refusal.value)


@pytest.mark.parametrize("rank", [0, 1001, -1, True, 1.0, "1"])
def test_a_wrong_rank_is_refused(rank: object) -> None:
    with pytest.raises(DefinitionError, match=r"undo_rank is .*; give a whole number from 1 to 1000"):
        step_with(undo="refund", undo_rank=rank)


def test_a_rank_without_an_undo_is_refused() -> None:
    with pytest.raises(DefinitionError, match="undo_rank stands without undo; name the operation"):
        step_with(undo_rank=1)


def test_the_order_of_undos_is_a_rank_of_each_step() -> None:
    steps = [step_with(name=f"s{n}", undo="refund", undo_rank=n % 2 + 1) for n in range(3)]
    plain = [replace(step, undo_rank=None) for step in steps]
    by_rank = workflow_with(steps=steps, undo_order="by-rank")
    assert [by_rank.undo_rank(n) for n in (1, 2, 3)] == [1, 2, 1]
    assert [workflow_with(steps=plain).undo_rank(n) for n in (1, 2, 3)] == [-1, -2, -3]
    assert {workflow_with(steps=plain, undo_order="parallel").undo_rank(n) for n in (1, 2, 3)} == {0}


def test_a_definition_in_the_usual_order_of_undos_is_spelled_as_before_there_were_others() -> None:
    assert "undo_order" not in workflow_with().to_json()
    assert "undo_rank" not in workflow_with().to_json()


def test_steps_are_counted_from_one() -> None:
    two = workflow_with(steps=[CHARGE, step_with(name="ship")])
    assert [two.step(1).name, two.step(2).name] == ["charge", "ship"]


def test_a_definition_does_not_change_with_the_list_it_was_made_from() -> None:
    steps = [CHARGE]
    made = workflow_with(steps=steps)
    steps.append(step_with(name="ship"))
    assert made.steps == (CHARGE,)


@settings(max_examples=50, deadline=None)
@given(workflow=WORKFLOWS)
def test_a_definition_comes_back_from_json_as_it_was(workflow: Workflow) -> None:
    again = Workflow.from_json(workflow.to_json())
    assert again == workflow
    assert again.digest() == workflow.digest()


@settings(max_examples=50, deadline=None)
@given(one=WORKFLOWS, two=WORKFLOWS)
def test_digests_differ_when_definitions_do(one: Workflow, two: Workflow) -> None:
    assert (one == two) == (one.digest() == two.digest())


def test_the_digest_of_a_definition_never_changes_between_releases() -> None:
    workflow = Workflow(
        "order-fulfilment",
        version=1,
        steps=[
            CHARGE,
            Step("ship", agent="shipping", operation="book", complete_within=timedelta(seconds=30)),
        ],
        on_error="compensate",
    )
    assert workflow.to_json() == (
        '{"name":"order-fulfilment","version":1,"on_error":"compensate","steps":['
        '{"name":"charge","agent":"payments","operation":"charge-card","undo":"refund"},'
        '{"name":"ship","agent":"shipping","operation":"book","complete_within_ms":30000}]}'
    )
    assert workflow.digest().hex() == "384453e304ebf534c6371f973a7099f328ee5de42644a25f17fb0d4b977263a1"


def test_blanks_and_the_order_of_members_make_no_other_definition() -> None:
    members = json.loads(workflow_with().to_json())
    shuffled = json.dumps(dict(reversed(members.items())), indent=2)
    assert Workflow.from_json(shuffled).digest() == workflow_with().digest()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "not a workflow definition"),
        ("{", "not a workflow definition"),
        ("[" * 100_000, "not a workflow definition"),
        ("[1]", "workflow is [1]; give an object with name, version, steps"),
        ("null", "workflow is None"),
        ('{"name": "w", "version": 1}', "workflow: steps is missing; add it"),
        ('{"name": "w", "version": 1, "steps": 5}', "workflow: steps is 5; give a list of steps"),
        ('{"name": "w", "version": 1, "steps": [5]}', "step 1 is 5; give an object with name, agent"),
        ('{"name": "w", "version": 1, "steps": [], "retries": 3}', "workflow: 'retries' is unknown"),
        (
            '{"name": "w", "version": 1, "steps": [{"name": "s", "agent": "a"}]}',
            "step 1: operation is missing",
        ),
        ('{"name": "w", "version": NaN, "steps": []}', "version is nan"),
    ],
)
def test_text_that_is_no_definition_is_refused_with_the_member_and_the_fix(text: str, fault: str) -> None:
    with pytest.raises(DefinitionError) as refusal:
        Workflow.from_json(text)
    assert fault in str(refusal.value)


@pytest.mark.parametrize("within", ["0", "-1", "1.5", "1e999", "NaN", "true", '"10s"', "31536000001"])
def test_a_time_limit_in_text_is_a_whole_number_of_milliseconds(within: str) -> None:
    step = f'{{"name": "s", "agent": "a", "operation": "o", "complete_within_ms": {within}}}'
    with pytest.raises(DefinitionError, match=r"step 1: complete_within_ms is .*; give 1 to 31536000000"):
        Workflow.from_json(f'{{"name": "w", "version": 1, "steps": [{step}]}}')
