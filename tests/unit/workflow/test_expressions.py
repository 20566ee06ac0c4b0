"""Expressions: what is wrong with one is said when it is written, with its place; what goes wrong later is bounded."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from triumvir.errors import DefinitionError, ExpressionError
from triumvir.workflow import Step, Workflow
from triumvir.workflow.expressions import MAX_LENGTH, compiled

SCOPE: dict[str, Any] = {
    "payload": {"total": 5, "name": "x", "list": [1, 2], "deep": [[{"a": 1}]]},
    "order": {"client": "shop"},
    "steps": {"check": {"state": "completed", "result": {"ok": True}}},
}


@pytest.mark.parametrize(
    ("text", "offset", "said"),
    [
        ("", 0, "is empty; write an expression such as payload.total"),
        ("payload.", 8, "'the end' at character 9"),
        ("payload[", 8, "ends too early"),
        ("payload.total > 100", 16, "'100' at character 17; a number stands in backticks: `100`"),
        ("payload.total - 1", 14, "a name with a hyphen"),
        ("payload.total-1", 13, "a number stands in backticks"),
        ("steps.charge-card.result", 12, 'stands in double quotes: steps."charge-card".result'),
        ("payload.größe", 10, "a name with a hyphen, or beyond a-z, stands in double quotes"),
        ("payload.a = `1`", 10, "compare with =="),
        ("payload.a == 'GB", 13, "a text stands in single quotes, closed: 'GB'"),
        ("payload..a", 8, "see the grammar at jmespath.org"),
        ("paylod.total", 0, "looks at 'paylod', which is not there; did you mean 'payload'?"),
        ("total", 0, "looks at 'total', which is not there; begin with payload, order, steps"),
        ('payload.country == "GB"', 20, "looks at 'GB', which is not there; a text stands in single quotes: 'GB'"),
        ("payload.a == true", 13, "looks at 'true', which is not there; a literal stands in backticks: `true`"),
        ("payload.a == `1` && lenght(payload.b) > `1`", 20, "calls lenght(), which does not exist; did you mean"),
        ("length(payload, order)", 0, "calls length() with 2 arguments; give 1"),
        ("merge()", 0, "calls merge() with 0 arguments; give at least 1"),
        ("!payload.gift", 0, "! binds closer than a dot; write !(payload.gift)"),
        ("payload.a\x00", 9, "holds the character '\\x00'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_expression_is_said_with_its_place(text: str, offset: int, said: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        compiled(text)
    assert said in raised.value.problem
    assert raised.value.offset == offset


def test_an_expression_has_a_largest_length() -> None:
    compiled("payload." + "a" * (MAX_LENGTH - 8))
    with pytest.raises(DefinitionError, match=f"has {MAX_LENGTH + 1} characters, {MAX_LENGTH} are allowed"):
        compiled("payload." + "a" * (MAX_LENGTH - 7))


def test_an_expression_nested_too_deep_is_refused_in_words() -> None:
    with pytest.raises(DefinitionError):
        compiled("(" * 900)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("payload.total", set()),
        ("steps.check.result.ok && steps.\"b-c\".state == 'skipped'", {"check", "b-c"}),
        ("{a: steps.check.result, b: [steps.other.result, payload.x]}", {"check", "other"}),
        ("payload.items[?steps > `1`].steps", set()),
        ("length(payload.list) > `1` || steps.check.result.list[0]", {"check"}),
        ("sort_by(payload.list, &steps)", set()),
        ("steps.*.result", None),
        ("keys(steps)", None),
        ("@.payload", None),
    ],
)
def test_an_expression_knows_the_steps_it_looks_at(text: str, steps: set[str] | None) -> None:
    assert compiled(text).steps == steps


def test_an_expression_is_compiled_once() -> None:
    assert compiled("payload.total") is compiled("payload.total")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("payload.total > `3`", True),
        ("payload.missing", None),
        ("payload.deep[0][0].a", 1),
        ("not_null(payload.missing, `7`)", 7),
        ("steps.check.result.ok", True),
        ("join('-', [order.client, payload.name])", "shop-x"),
    ],
)
def test_an_expression_is_evaluated_over_its_scope(text: str, value: Any) -> None:
    assert compiled(text).evaluate(SCOPE) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "length(payload.total)",
            "length() was given a value of type number, it takes string or array or object",
        ),
        ("payload.name > payload.total", "TypeError"),
        ("payload.list" + " | [@,@][]" * 60, "takes more than 20000 evaluations"),
        ("'aaaaaaa'" + "|join('',[@,@])" * 40, "join() would make a text of"),
    ],
)
def test_an_expression_that_cannot_be_worked_out_says_so_without_the_data(text: str, said: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        compiled(text).evaluate(SCOPE)
    assert said in str(raised.value)
    assert "received" not in str(raised.value)


def test_a_step_may_look_at_earlier_steps_only() -> None:
    check = Step("check", agent="a", operation="check")
    for name, known in (("later", "the earlier ones are check"), ("chek", "the earlier ones are check")):
        step = Step("charge", agent="a", operation="charge", select={"x": f"steps.{name}.result"})
        with pytest.raises(
            DefinitionError, match=f"looks at steps.{name}, which is no earlier step; {known}"
        ) as raised:
            Workflow("w", 1, [check, step, Step("later", agent="a", operation="later")])
        assert raised.value.path == ("steps", 1, "select", "x")
    with pytest.raises(DefinitionError, match="no earlier step; there is none"):
        Workflow("w", 1, [Step("check", agent="a", operation="check", when="steps.check.result")])


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"when": 7}, "when is 7; give a JMESPath expression as text"),
        ({"when": "paylod"}, "step 'check': when looks at 'paylod'"),
        ({"select": {}}, "select has 0 members; give 1 to 100, or leave it out"),
        ({"select": {"": "payload"}}, "select: '' is no name"),
        ({"select": {"a": None}}, "select.a is None; give a JMESPath expression as text"),
        ({"select": ["payload"]}, r"select is \['payload'\]; give a JMESPath expression as text"),
        ({"select": {"a": "payload", "b": "lenght(payload)"}}, "select.b calls lenght"),
    ],
)
def test_a_condition_or_selection_that_is_wrong_is_named(members: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        Step("check", agent="a", operation="check", **members)


def test_a_selection_has_one_spelling_however_it_is_ordered_and_cannot_be_changed() -> None:
    one = Step("a", agent="a", operation="a", select={"x": "payload.x", "y": "payload.y"})
    two = Step("a", agent="a", operation="a", select={"y": "payload.y", "x": "payload.x"})
    assert one == two
    assert hash(one) == hash(two)
    assert Workflow("w", 1, [one]).digest() == Workflow("w", 1, [two]).digest()
    with pytest.raises(TypeError):
        one.select["x"] = "payload"  # type: ignore[index]


def test_a_definition_without_conditions_is_written_as_it_was_before_there_were_any() -> None:
    workflow = Workflow("w", 1, [Step("a", agent="b", operation="c", undo="d")])
    assert workflow.to_json() == (
        '{"name":"w","version":1,"on_error":"halt",'
        '"steps":[{"name":"a","agent":"b","operation":"c","undo":"d"}]}'
    )
    assert not workflow.looks_at_data


def test_conditions_and_selections_come_back_from_the_stored_text() -> None:
    steps = [
        Step("a", agent="a", operation="a", select={"ü": 'payload."ü"', "x": "payload.x"}),
        Step("b", agent="a", operation="b", when="steps.a.result.ok == `true`", select="steps.a.result"),
    ]
    workflow = Workflow("w", 1, steps)
    assert Workflow.from_json(workflow.to_json()) == workflow
    assert workflow.looks_at_data


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("join(payload.s, payload.l)", {"s": "x" * 100_000, "l": [""] * 10_000}),
        ("to_string(payload" + "|[@,@]" * 25 + ")", {}),
    ],
)
def test_a_value_far_larger_than_what_it_is_made_of_is_never_made(text: str, scope: dict[str, Any]) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ExpressionError, match="select less"):
            compiled(text).evaluate({"payload": scope})
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def test_what_is_joined_and_spelled_within_the_bounds_is_as_before() -> None:
    scope = {"payload": {"l": ["a", "b"], "o": {"n": 1}}}
    assert compiled("join('-', payload.l)").evaluate(scope) == "a-b"
    assert compiled("to_string(payload.o)").evaluate(scope) == '{"n":1}'
    assert compiled("to_string('a')").evaluate(scope) == "a"
