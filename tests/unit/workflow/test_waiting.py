"""Waits as an author writes them, in Python and in YAML: what is right is kept, what is wrong is named."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from triumvir.errors import DefinitionError, DefinitionFileError
from triumvir.workflow import Step, Wait, Workflow
from triumvir.workflow.files import workflows_in

DAY = timedelta(days=1)
FILE = """
name: w
version: 1
steps:
  - name: approve
    signal: approval
    {rest}
"""


def approve(**changes: Any) -> Wait:
    return Wait("approve", **{"signal": "approval", "within": DAY, **changes})


def written(rest: str) -> Workflow:
    (workflow,) = workflows_in(FILE.format(rest=rest), "w.yaml")
    return workflow


@pytest.mark.parametrize(
    "wait",
    [
        approve(),
        approve(default={"approved": False, "by": [1, None, "x"]}),
        approve(default=False),
        approve(when="payload.total > `5`", default=""),
    ],
)
def test_a_wait_comes_back_as_it_was_stored(wait: Wait) -> None:
    workflow = Workflow("w", 1, [wait, Step("b", agent="a", operation="b")])
    assert Workflow.from_json(workflow.to_json()) == workflow


def test_a_default_is_the_same_whatever_the_order_of_its_members_and_a_copy() -> None:
    given: dict[str, Any] = {"b": 1, "a": {"z": 1, "y": 2}}
    one = Workflow("w", 1, [approve(default=given)])
    given["b"] = 2
    other = Workflow("w", 1, [approve(default={"a": {"y": 2, "z": 1}, "b": 1})])
    assert one.digest() == other.digest()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"signal": "Approval!"}, "signal is 'Approval!'; it must match"),
        ({"within": timedelta(0)}, "within is datetime.timedelta"),
        ({"within": 5}, "within is 5; give a timedelta"),
        ({"default": {1, 2}}, "default has no JSON form"),
        ({"default": float("nan")}, "default has no JSON form"),
        ({"default": "x" * 10_001}, "default has 10003 characters, 10000 are allowed"),
        ({"default": "\x00"}, "default: holds a NUL character; remove it"),
        ({"when": "payload.total >"}, "when ends too early"),
    ],
)
def test_what_is_wrong_with_a_wait_is_named_with_the_fix(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        approve(**changes)
    assert says in str(caught.value)


def test_two_steps_may_not_wait_for_the_same_signal() -> None:
    with pytest.raises(DefinitionError, match="two steps wait for the signal 'approval'; give each"):
        Workflow("w", 1, [approve(), Wait("again", signal="approval", within=DAY)])


def test_a_wait_looks_at_earlier_steps_only() -> None:
    with pytest.raises(DefinitionError, match="which is no earlier step"):
        Workflow("w", 1, [approve(when="steps.b.result"), Step("b", agent="a", operation="b")])


def test_yaml_says_the_same_as_python() -> None:
    read = written("within: 1d\n    default: {approved: false, note: no, least: 1.5, who: null}")
    wait = approve(default={"approved": False, "note": "no", "least": 1.5, "who": None})
    assert read == Workflow("w", 1, [wait])
    assert written("within_ms: 86400000") == Workflow("w", 1, [approve()])


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ("when: payload.x", "w.yaml:5:5: steps[0]: within is missing; add within:"),
        ("within: 2", "w.yaml:7:13: steps[0].within: is '2' without a unit"),
        ("within: 2d\n    default: null", "w.yaml:8:14: steps[0].default: is null; give a value, or leave"),
        (
            "within: 2d\n    undo: x",
            "w.yaml:8:5: steps[0]: 'undo' is no key of a wait; the keys are name, signal",
        ),
        ("within: 2d\n    within_ms: 5", "w.yaml:8:16: steps[0].within_ms: stands beside within"),
        ("within: 2d\n    default: 1e999", "w.yaml:8:14: steps[0].default: has no JSON form"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_place(rest: str, says: str) -> None:
    with pytest.raises(DefinitionFileError) as caught:
        written(rest)
    assert says in str(caught.value)
