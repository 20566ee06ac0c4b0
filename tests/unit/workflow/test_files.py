"""Workflows in YAML and JSON: equal to those of Python, and every fault with its line, its field and its fix."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import hypothesis.strategies as st
import pytest
import yaml
from hypothesis import given

from tests.unit.workflow.test_model import WORKFLOWS
from triumvir.errors import DefinitionFileError
from triumvir.workflow import Step, Workflow
from triumvir.workflow.durations import LONGEST, duration_of, spelled
from triumvir.workflow.files import workflows_in

HEAD = "name: w\nversion: 1\nsteps:\n"
STEP = "  - name: a\n    agent: x\n    operation: y\n"
ONE = Workflow("w", 1, [Step("a", agent="x", operation="y")])


def faults(text: str, *, is_json: bool = False) -> list[str]:
    with pytest.raises(DefinitionFileError) as raised:
        workflows_in(text, "f.yaml", is_json=is_json)
    return list(raised.value.faults)


def only_fault(text: str, *, is_json: bool = False) -> str:
    (fault,) = faults(text, is_json=is_json)
    return fault


def test_a_file_is_the_workflow_that_python_would_make() -> None:
    text = """
# a comment
name: gift-order
version: 3
on_error: compensate
steps:
  - {name: redeem, agent: cards, operation: redeem-gift, undo: restore-gift, when: payload.gift != `null`}
  - name: charge
    agent: cards
    operation: "charge-card"
    complete_within: 1m30s
    when: |
      payload.total > `0` &&
        payload.country == 'GB'
    select:
      amount: payload.total
      gift: steps.redeem.result
  - name: pack
    agent: packing
    operation: pack
    select: 'payload.lines[*].sku'
"""
    expected = Workflow(
        "gift-order",
        3,
        [
            Step(
                "redeem",
                agent="cards",
                operation="redeem-gift",
                undo="restore-gift",
                when="payload.gift != `null`",
            ),
            Step(
                "charge",
                agent="cards",
                operation="charge-card",
                complete_within=timedelta(seconds=90),
                when="payload.total > `0` &&\n  payload.country == 'GB'\n",
                select={"amount": "payload.total", "gift": "steps.redeem.result"},
            ),
            Step("pack", agent="packing", operation="pack", select="payload.lines[*].sku"),
        ],
        "compensate",
    )
    (read,) = workflows_in(text, "f.yaml")
    assert read == expected
    assert read.digest() == expected.digest()


@given(WORKFLOWS)
def test_what_is_written_out_is_read_again(workflow: Workflow) -> None:
    stored = workflow.to_json()
    as_yaml = yaml.safe_dump(json.loads(stored))
    assert workflows_in(stored, "f.json", is_json=True) == [workflow]
    assert workflows_in(as_yaml, "f.yaml") == [workflow]


@given(st.integers(1, LONGEST // timedelta(milliseconds=1)))
def test_a_duration_is_read_as_it_is_spelled(milliseconds: int) -> None:
    span = timedelta(milliseconds=milliseconds)
    assert duration_of(spelled(span)) == span


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("30s", 30_000), ("500ms", 500), ("1.5h", 5_400_000), ("1m30s", 90_000), ("365d", 31_536_000_000)],
)
def test_durations_have_units(text: str, milliseconds: int) -> None:
    assert duration_of(text) == timedelta(milliseconds=milliseconds)


def test_a_file_holds_several_workflows_as_documents_or_as_a_list() -> None:
    other = HEAD.replace("name: w", "name: v")
    documents = f"---\n{HEAD}{STEP}---\n{other}{STEP}---\n"
    assert [each.name for each in workflows_in(documents, "f.yaml")] == ["w", "v"]
    array = f"[{ONE.to_json()}, {Workflow('w', 2, ONE.steps).to_json()}]"
    assert [each.version for each in workflows_in(array, "f.json", is_json=True)] == [1, 2]


def test_names_stay_the_texts_that_were_written() -> None:
    text = "name: 007\nversion: 1\nsteps:\n  - name: no\n    agent: 2026-11-30\n    operation: 1e3\n    undo: off\n"
    (workflow,) = workflows_in(text, "f.yaml")
    expected = Step("no", agent="2026-11-30", operation="1e3", undo="off")
    assert (workflow.name, list(workflow.steps)) == ("007", [expected])


TOP: list[tuple[str, str]] = [
    ("", "1:1: holds no workflow; write name:, version: and steps:"),
    ("# nothing\n", "1:1: holds no workflow"),
    ("hello\n", "1:1: is the text 'hello'; give a workflow with name, version, steps"),
    ("- hello\n", "1:3: is the text 'hello'; give a workflow"),
    (f"{HEAD}{STEP}---\n{HEAD}{STEP}", "8:1: w version 1 stands in this file before; change its version"),
    (
        "name: w\nsteps:\n\t- a\n",
        "3:1: is no YAML: found character '\\t' that cannot start any token; indent with",
    ),
    ("name: [\n", "2:1: is no YAML: expected the node content, but found '<stream end>'"),
    (f"{HEAD}{STEP}   undo: z\n", "7:4: is no YAML: expected <block end>, but found '<block mapping start>'"),
    ("name: \x07\n", "1:7: the character '\\x07' is not allowed; remove it"),
    ("name: &n w\n", "1:7: anchors (&name) are not used here"),
    ("name: *n\n", "1:7: aliases (*name) are not used here"),
    ("!!python/object/apply:os.system [ls]\n", "1:1: tags (tag:yaml.org,2002:python/object/apply:os.system)"),
    (f"name: w\n{HEAD}{STEP}", "2:1: 'name' stands here and in line 1; leave one of them"),
    ("? [a]\n: b\n", "1:3: a key is a text here; write name: value"),
    ("[" * 5000, "1:11: nested deeper than 10"),
    ("#" * 1_000_001, "1:1: the file has 1000001 characters, 1000000 are allowed; split it"),
    (f"{HEAD}{STEP}on_eror: halt\n", "7:1: 'on_eror' is no key of a workflow; did you mean 'on_error'?"),
    (
        f"{HEAD}{STEP}zzz: halt\n",
        "7:1: 'zzz' is no key of a workflow; the keys are name, version, on_error, undo_order, classification, ",
    ),
    (f"name: w\nsteps:\n{STEP}", "1:1: version is missing; add version:"),
    (HEAD.replace("w", "My Order") + STEP, "1:7: name: is 'My Order'; it must match ^[a-z0-9-]{1,40}$"),
    (HEAD.replace(" w", "") + STEP, "1:6: name: is empty; give a value, or leave the line out"),
    (HEAD.replace("1", '"1"') + STEP, "2:11: version: is the text '1'; write the number without"),
    (HEAD.replace("1", "010") + STEP, "2:10: version: is '010'; give a whole number, such as 1"),
    (HEAD.replace("1", "0") + STEP, "2:10: version: is 0; give a whole number from 1"),
    (f"on_error: retry\n{HEAD}{STEP}", "1:11: on_error: is 'retry'; give 'halt' or 'compensate'"),
    (
        f"undo_order: any\n{HEAD}{STEP}",
        "1:13: undo_order: is 'any'; give 'reverse', 'by-rank' or 'parallel'",
    ),
    (
        f"{HEAD}{STEP}    undo: z\n    undo_rank: first\n",
        "8:16: steps[0].undo_rank: is 'first'; give a whole number, such as 1",
    ),
    (
        f"{HEAD}{STEP}    undo: z\n    undo_rank: 1\n",
        "8:16: steps[0].undo_rank: says nothing where undo_order is reverse; make that by-rank",
    ),
    (
        f"undo_order: by-rank\n{HEAD}{STEP}    undo: z\n",
        "5:5: steps[0].undo_rank: is missing; add one of 1 to 1000: the workflow is undone by rank",
    ),
    ("name: w\nversion: 1\nsteps: []\n", "3:8: steps: 0 steps; give 1 to 1000"),
    ("name: w\nversion: 1\nsteps: a\n", "3:8: steps: is the text 'a'; give a list of steps, each with"),
    ("name: w\nversion: 1\nsteps:\n  a: b\n", "4:3: steps: is a mapping; give a list of steps"),
    (f"{HEAD}  - a\n", "4:5: steps[0]: is the text 'a'; give a step with name, agent, operation"),
    (f"{HEAD}  - name: a\n    agent: x\n", "4:5: steps[0]: operation is missing; add operation:"),
    (f"{HEAD}  - {{name: a, agent: [x], operation: y}}\n", "4:22: steps[0].agent: is a list; give a text"),
    (f"{HEAD}{STEP}{STEP}", "7:11: steps[1].name: two steps are named 'a'; rename one"),
]
IN_A_STEP: list[tuple[str, str]] = [
    ("when: a: b", "7:12: is no YAML: mapping values are not allowed here; put a text that"),
    ("when: `true`", "7:11: is no YAML: found character '`' that cannot start any token; put"),
    ("when: !payload.gift", "7:11: tags (!payload.gift) are not used here; put a text that begins"),
    ("agent: z", "7:5: 'agent' stands here and in line 5"),
    ("<<: {undo: z}", "7:5: steps[0]: '<<' is no key of a step"),
    ('when: "\\ud800"', "7:11: holds half of a character"),
    ("timeout: 5s", "7:5: steps[0]: 'timeout' is no key of a step; did you mean 'complete_within'?"),
    ("undo: y", "7:11: steps[0].undo: is the operation itself; name another operation"),
    ("undo:", "7:10: steps[0].undo: is empty; give a value, or leave the line out"),
    ("undo: null", "7:11: steps[0].undo: is empty"),
    ("complete_within: 30", "7:22: steps[0].complete_within: is '30' without a unit; write 30s"),
    ("complete_within: soon", "7:22: steps[0].complete_within: is 'soon'; give a duration such as"),
    ("complete_within: 0s", "7:22: steps[0].complete_within: is '0s'; give whole milliseconds, above"),
    ("complete_within: 730d", "7:22: steps[0].complete_within: is '730d'; give whole millisec"),
    ("complete_within: 0.5ms", "7:22: steps[0].complete_within: is '0.5ms'; give whole"),
    ("complete_within_ms: 0", "7:25: steps[0].complete_within_ms: is 0; give 1 to 31536000000"),
    (
        "complete_within: 1s\n    complete_within_ms: 5",
        "8:25: steps[0].complete_within_ms: stands beside complete_within; leave one of them",
    ),
    ("when: payload.total > 100", "7:27: steps[0].when: is no JMESPath: '100' at character 17; a num"),
    ('when: "payload.x > 1"', "7:24: steps[0].when: is no JMESPath: '1' at character 13"),
    ("when: payload.x ||", "7:23: steps[0].when: ends too early; complete the expression"),
    ("when: |\n      paylod.x", "7:11: steps[0].when: looks at 'paylod', which is not"),
    ("select: lenght(payload)", "7:13: steps[0].select: calls lenght(), which does not exist; did"),
    ("select:\n      x: payload.x\n      z: total", "9:10: steps[0].select.z: looks at 'total'"),
    ("select: {x: [a]}", "7:17: steps[0].select.x: is a list; give a text"),
    ("select: {}", "7:13: steps[0].select: has 0 members; give 1 to 100, or leave it out"),
    ("select: [payload]", "7:13: steps[0].select: is a list; give one expression, or"),
    ("when: steps.b.result", "7:17: steps[0].when: looks at steps.b, which is no earlier step"),
    ("when: true", "7:11: steps[0].when: looks at 'true', which is not there; a literal stands"),
]
"""What stands in the lines after those of a good step; the first of them is line 7."""


@pytest.mark.parametrize(("text", "said"), TOP, ids=[said for _, said in TOP])
def test_a_fault_is_told_with_its_line_its_field_and_its_fix(text: str, said: str) -> None:
    assert only_fault(text).startswith(f"f.yaml:{said}")


@pytest.mark.parametrize(("members", "said"), IN_A_STEP, ids=[said for _, said in IN_A_STEP])
def test_a_fault_in_a_step_is_told_with_its_line_its_field_and_its_fix(members: str, said: str) -> None:
    assert only_fault(f"{HEAD}{STEP}    {members}\n").startswith(f"f.yaml:{said}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name" "w"}', "1:9: is no JSON: Expecting ':' delimiter; correct it"),
        ("name: w", "1:1: is no JSON"),
        ('{"name": "w", "name": "v"}', "1:16: 'name' stands here and in line 1"),
        ('{\n\t"name": "w",\n\t"version": "1",\n\t"steps": [1]\n}', "3:14: version: is the text '1'"),
        ("[" * 100_000, "1:1: is no JSON"),
    ],
)
def test_a_fault_in_json_is_told_in_the_same_way(text: str, said: str) -> None:
    assert faults(text, is_json=True)[0].startswith(f"f.yaml:{said}")


def test_every_fault_of_a_file_is_told_at_once_in_the_order_of_the_file() -> None:
    text = "name: A\nversion: x\nsteps:\n  - name: B\n    agent: x\n    undo:\n---\nname: w\n"
    assert [fault.partition(": ")[0] for fault in faults(text)] == [
        "f.yaml:1:7", "f.yaml:2:10", "f.yaml:4:5", "f.yaml:4:11", "f.yaml:6:10", "f.yaml:8:1", "f.yaml:8:1",
    ]  # fmt: skip
    many = faults(HEAD + "  - a\n" * 50)
    assert (len(many), many[-1]) == (21, "f.yaml: and 30 more")


def test_a_character_of_two_halves_is_one_in_json() -> None:
    members: dict[str, Any] = json.loads(ONE.to_json())
    members["steps"][0]["when"] = "payload.mood == '\U0001f600'"
    (workflow,) = workflows_in(json.dumps(members), "f.json", is_json=True)
    assert workflow.steps[0].when == "payload.mood == '\U0001f600'"


KEYS = st.sampled_from(["name", "version", "steps", "agent", "select", "when", "x"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.text(max_size=200) | ANYTHING.map(json.dumps), st.booleans())
def test_whatever_is_in_a_file_it_is_a_workflow_or_told(text: str, is_json: bool) -> None:
    try:
        assert workflows_in(text, "f", is_json=is_json)
    except DefinitionFileError as told:
        lines = told.faults
        assert all(line.startswith("f:") for line in lines)
