"""Where a step leads when its time is over: what is refused when the definition is built, and what is kept of it."""

from __future__ import annotations

from typing import Any

import pytest

from triumvir.errors import DefinitionError, DefinitionFileError
from triumvir.workflow import Step, Workflow
from triumvir.workflow.files import workflows_in


def step(name: str, **members: Any) -> Step:
    return Step(name, agent="a", operation=name, **members)


def workflow(*steps: Step) -> Workflow:
    return Workflow("w", 1, steps)


YAML = """\
name: w
version: 1
steps:
  - name: charge
    agent: a
    operation: charge
    on_timeout: invoice
    recoverable: false
  - name: invoice
    agent: a
    operation: invoice
    main_line: false
"""


def test_yaml_says_the_same_as_python() -> None:
    built = workflow(
        step("charge", on_timeout="invoice", recoverable=False), step("invoice", main_line=False)
    )
    assert workflows_in(YAML, "f.yaml") == [built]
    assert Workflow.from_json(built.to_json()) == built


def test_a_definition_without_routes_is_written_as_it_was() -> None:
    text = workflow(step("charge")).to_json()
    assert not [word for word in ("on_timeout", "main_line", "recoverable") if word in text]


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((step("a", on_timeout="a"), step("b")), "leads to the step itself; name a later step: b"),
        ((step("a"), step("b", on_timeout="a"), step("c")), "leads back to 'a', which comes earlier; name a later"),
        ((step("a", on_timeout="z"), step("b")), "is 'z', which is no step of the workflow; name a later step: b"),
        ((step("a"), step("b", on_timeout="a")), "the last step has no later one; leave it out"),
        ((step("a", main_line=False),), "no step is of the main line"),
    ],
)  # fmt: skip
def test_a_route_that_leads_nowhere_or_back_is_refused(steps: tuple[Step, ...], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        workflow(*steps)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"on_timeout": "Step B"}, "on_timeout is 'Step B'; it must match"),
        ({"main_line": 0}, "main_line is 0; give True or False"),
        ({"recoverable": "no"}, "recoverable is 'no'; give True or False"),
    ],
)
def test_a_value_that_its_member_cannot_take_is_refused(members: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        step("a", **members)


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        ("on_timeout: invoice", "on_timeout: charge", "7:17: steps[0].on_timeout: leads to the step itself"),
        ("on_timeout: invoice", "on_timeout: fax", "7:17: steps[0].on_timeout: is 'fax', which is no step"),
        ("main_line: false", "main_line: no", "12:16: steps[1].main_line: is 'no'; write true or false"),
        ("recoverable: false", "recoverable: 'false'", "8:19: steps[0].recoverable: is 'false'; write true"),
    ],
)
def test_a_fault_in_a_file_is_told_with_its_place(wrong: str, right: str, said: str) -> None:
    with pytest.raises(DefinitionFileError) as refused:
        workflows_in(YAML.replace(wrong, right), "f.yaml")
    assert str(refused.value).startswith(f"f.yaml:{said}")
