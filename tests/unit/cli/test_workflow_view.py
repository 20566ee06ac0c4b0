"""A workflow, drawn: every step, undo, time, condition and selection; and Mermaid that cannot be broken by a text."""

from __future__ import annotations

import re
from datetime import timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import given
from rich.text import Text

from tests.unit.workflow.test_model import WORKFLOWS
from triumvir.cli import workflow_view
from triumvir.errors import DefinitionError
from triumvir.workflow import Step, UndoOrder, Wait, Workflow

GIFT = Workflow(
    "gift-order",
    2,
    [
        Step("check", agent="orders", operation="check-order"),
        Step("redeem", agent="cards", operation="redeem", undo="restore", when='payload.gift != `"<b>"`'),
        Step(
            "charge",
            agent="cards",
            operation="charge",
            undo="refund",
            complete_within=timedelta(seconds=90),
            when="payload.total >\n  `0` && payload.a == 'x|y]\"'",
            select={"amount": "payload.total", "gift": "steps.redeem.result"},
        ),
        Step("pack", agent="packing", operation="pack", select="payload.lines[*].sku"),
        Wait("approve", signal="approval", within=timedelta(days=2), default={"approved": False}),
    ],
    "compensate",
)

_NODE = r'(?P<id>[a-z]+[0-9]*)(?P<shape>\(\["[^"]*"\]\)|\["[^"]*"\]|\[/"[^"]*"/\]|\{"[^"]*"\})?'


class Chart:
    """A flowchart as Mermaid reads it: nodes with their labels, and edges with theirs. ValueError if it is none."""

    def __init__(self, lines: list[str]) -> None:
        self.labels: dict[str, str] = {}
        self.edges: list[tuple[str, str, str]] = []
        if lines[0] != "flowchart TD":
            raise ValueError(lines[0])
        for line in lines[1:]:
            self._read(line)
        ends = {end for one, other, _ in self.edges for end in (one, other)}
        if ends - set(self.labels):
            raise ValueError(f"nodes without a label: {ends - set(self.labels)}")

    def _read(self, line: str) -> None:
        rest, label = line.removeprefix("    "), ""
        before: list[str] = []
        group: list[str] = []
        while True:
            node = re.match(_NODE, rest)
            if node is None:
                raise ValueError(line)
            self._name(node["id"], node["shape"])
            self.edges += [(one, node["id"], label) for one in before]
            rest, group = rest[node.end() :], [*group, node["id"]]
            if rest.startswith(" & "):
                rest = rest.removeprefix(" & ")
                continue
            before, group = group, []
            if not rest:
                return
            arrow = re.match(r" (-->|-\.->|==>)(?:\|([^|\"]*)\|)? ", rest)
            if arrow is None:
                raise ValueError(line)
            rest, label = rest[arrow.end() :], arrow[2] or ""

    def _name(self, node: str, shape: str | None) -> None:
        if shape is None:
            return
        if node in self.labels:
            raise ValueError(f"{node} is labelled twice")
        text = shape.strip("[](){}/").strip('"').replace("<br/>", "\n")
        if re.search(r"[<>&;`#]", re.sub(r"#\d+;", "", text)):
            raise ValueError(f"{text} may mean something else")
        self.labels[node] = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), text)


def chart(workflow: Workflow) -> Chart:
    return Chart(list(workflow_view.mermaid(workflow)))


def test_a_flowchart_has_every_step_condition_selection_time_and_undo() -> None:
    drawn = chart(GIFT)
    assert drawn.labels == {
        "start": "gift-order v2",
        "s1": "check\norders/check-order",
        "w2": 'payload.gift != `"<b>"`',
        "s2": "redeem\ncards/redeem",
        "w3": "payload.total > `0` && payload.a == 'x|y]\"'",
        "s3": "charge\ncards/charge\namount = payload.total\ngift = steps.redeem.result\nwithin 1m30s",
        "s4": "pack\npacking/pack\nselect payload.lines[*].sku",
        "s5": 'approve\nwaits for signal approval\nwithin 2d\ndefault {"approved":false}',
        "done": "processed",
        "u2": "cards/restore",
        "u3": "cards/refund",
        "undone": "compensated",
    }
    assert drawn.edges == [
        ("start", "s1", ""),
        ("s1", "w2", ""),
        ("w2", "s2", "true"),
        ("w2", "w3", "false, redeem is skipped"),
        ("s2", "w3", ""),
        ("w3", "s3", "true"),
        ("w3", "s4", "false, charge is skipped"),
        ("s3", "s4", ""),
        ("s4", "s5", ""),
        ("s5", "done", ""),
        ("s2", "u2", "undo"),
        ("s3", "u3", "undo"),
        ("u3", "u2", ""),
        ("u2", "undone", ""),
    ]


@given(WORKFLOWS)
def test_every_workflow_is_a_flowchart_in_which_every_step_leads_to_the_end(workflow: Workflow) -> None:
    drawn = chart(workflow)
    leads = {one: other for one, other, label in drawn.edges if label == "" and one[0] in "s"}
    at, seen = "start", 0
    while at != "done":
        at, seen = leads[at], seen + 1
    assert seen == len(workflow.steps) + 1


@given(st.text(max_size=30))
def test_no_text_of_an_expression_breaks_a_flowchart(text: str) -> None:
    literal = text.replace("\\", "").replace("'", "")
    try:
        step = Step("a", agent="x", operation="y", when=f"payload.x == '{literal}'")
    except DefinitionError:
        return  # a control character
    assert chart(Workflow("w", 1, [step])).labels["w1"] == " ".join(f"payload.x == '{literal}'".split())


def test_a_drawing_that_is_no_flowchart_is_noticed() -> None:
    for line in ('    s1["a"] --> s2', '    s1["a', '    s1["<b>"]', '    s1["a"] -> s1', "    s1[`a`]"):
        with pytest.raises(ValueError, match=r"."):
            Chart(["flowchart TD", line])


def ranked(undo_order: UndoOrder, *ranks: int | None) -> Workflow:
    steps = [
        Step(f"s{n}", agent="a", operation="o", undo="u", undo_rank=rank)
        for n, rank in enumerate(ranks, start=1)
    ]
    return Workflow("w", 1, steps, undo_order=undo_order)


@pytest.mark.parametrize(
    ("workflow", "said", "edges"),
    [
        (
            ranked("by-rank", 2, 1, 1),
            "undone by rank: s2 + s3, then s1",
            {("u2", "u1"), ("u3", "u1"), ("u1", "undone")},
        ),
        (
            ranked("parallel", None, None),
            "undone at the same time: s1 + s2",
            {("u1", "undone"), ("u2", "undone")},
        ),
        (
            ranked("reverse", None, None),
            "undone in this order: s2, then s1",
            {("u2", "u1"), ("u1", "undone")},
        ),
    ],
)
def test_both_drawings_say_which_undos_go_together(
    workflow: Workflow, said: str, edges: set[tuple[str, str]]
) -> None:
    assert list(workflow_view.text(workflow))[-1].strip() == said
    assert {(one, other) for one, other, label in chart(workflow).edges if one[0] == "u"} == edges


def test_the_text_has_every_step_with_all_that_is_said_of_it() -> None:
    lines = [Text.from_markup(line).plain.rstrip() for line in workflow_view.text(GIFT)]
    assert lines == [
        "gift-order v2, on error: compensate",
        "",
        "  1  check",
        "  │    runs       orders/check-order",
        "  │    within     TRIUMVIR_STEP_TIMEOUT",
        "  │",
        "  2  redeem",
        '  │    when       payload.gift != `"<b>"`  (else skipped)',
        "  │    runs       cards/redeem",
        "  │    undo       cards/restore",
        "  │    within     TRIUMVIR_STEP_TIMEOUT",
        "  │",
        "  3  charge",
        "  │    when       payload.total > `0` && payload.a == 'x|y]\"'  (else skipped)",
        "  │    runs       cards/charge",
        "  │    select     amount = payload.total",
        "  │    select     gift = steps.redeem.result",
        "  │    undo       cards/refund",
        "  │    within     1m30s",
        "  │",
        "  4  pack",
        "  │    runs       packing/pack",
        "  │    select     payload.lines[*].sku",
        "  │    within     TRIUMVIR_STEP_TIMEOUT",
        "  │",
        "  5  approve",
        "  │    waits for  signal approval",
        "  │    within     2d",
        '  │    default    {"approved":false}',
        "  │",
        "  ▼",
        "     processed, with the result of the last step that ran",
        "     undone in this order: charge, then redeem",
    ]


PAID = Workflow(
    "paid-order",
    1,
    [
        Step("charge", agent="cards", operation="charge", on_timeout="invoice"),
        Step("invoice", agent="office", operation="invoice", main_line=False, when="payload.address"),
        Step("ship", agent="depot", operation="ship", recoverable=False),
    ],
)


def test_a_time_out_is_drawn_to_where_it_leads_and_the_main_line_passes_that_over() -> None:
    edges = Chart(list(workflow_view.mermaid(PAID))).edges
    assert ("start", "s1", "") in edges
    assert ("s1", "s3", "") in edges
    assert ("s1", "w2", "time over") in edges
    assert ("s2", "s3", "") in edges
    assert ("w2", "s3", "false, invoice is skipped") in edges


def test_the_text_tells_where_a_time_out_leads_and_what_is_called_once() -> None:
    lines = [Text.from_markup(line).plain for line in workflow_view.text(PAID)]
    assert "  │    within     TRIUMVIR_STEP_TIMEOUT, then invoice instead" in lines
    assert "  2  invoice  (only if a time-out leads to it)" in lines
    assert "  │    called     once; then it is only asked what came of it" in lines
