from __future__ import annotations

import json
import sys

import pytest

from triumvir.contracts.json_text import JsonText, parse_object
from triumvir.errors import ContractError


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": -Infinity}',
        '{"a": 1e400}',
        '{"a": -1e400}',
        '{"a": 9007199254740992}',
        '{"a": -9007199254740992}',
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 1}}',
        '{"a": [{"b": 1, "\\u0062": 1}]}',
        '{"a": "\\u0000"}',
        '{"\\u0000": 1}',
        '{"a": "x\x00"}',
        '{"a": "\\ud800"}',
        '{"a": "\\udc00\\ud800"}',
        '{"\\ud800": 1}',
        '{"a": ["\\ud83d"]}',
        '{"a": 01}',
        '{"a": 1.}',
        '{"a": .5}',
        '{"a": +1}',
        "{'a': 1}",
        '{"a": 1,}',
        '{"a" 1}',
        '{"a": 1} x',
        '{"a": 1}{}',
        '{"a": "\t"}',
        '\ufeff{"a": 1}',
        '{"a": tru}',
        "{",
        "",
        "null",
        '"text"',
        "[1]",
    ],
)
def test_text_that_readers_could_take_differently_is_refused(text: str) -> None:
    with pytest.raises(ContractError) as caught:
        parse_object(text, max_depth=64)
    assert caught.value.reason == "invalid"


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        " \t\r\n{ } ",
        '{"a": 9007199254740991, "b": -9007199254740991}',
        '{"a": 1.7976931348623157e308, "b": 5e-324, "c": -0.0}',
        '{"a": "\\ud83d\\ude00", "b": "😀", "c": "\\\\u0000"}',
        '{"": {"": [[], {}, null, true, false]}}',
        '{"a": "\\u007f\\n\\"/\\/"}',
    ],
)
def test_text_that_every_reader_takes_alike_is_accepted(text: str) -> None:
    members = parse_object(text, max_depth=64)
    assert {name: member.value for name, member in members.items()} == json.loads(text)


@pytest.mark.parametrize("shape", ['{{"a": {}}}', '{{"b": 1, "a": [{}]}}'])
@pytest.mark.parametrize("opening, closing", [("[", "]"), ('{"x":', "}")])
def test_depth_is_counted_to_the_limit_and_not_beyond(shape: str, opening: str, closing: str) -> None:
    inside = 63 if "[" in shape else 64  # a member's value is the first level, the body around it is none
    for levels, accepted in ((inside, True), (inside + 1, False)):
        text = shape.format(opening * levels + "1" + closing * levels)
        if accepted:
            assert parse_object(text, max_depth=64)
        else:
            with pytest.raises(ContractError, match="too_deep"):
                parse_object(text, max_depth=64)


@pytest.mark.parametrize("levels", [10_000, 200_000])
def test_depth_beyond_what_python_can_nest_is_refused_in_words(levels: int) -> None:
    with pytest.raises(ContractError, match="too_deep"):
        parse_object('{"a": ' + "[" * levels + "]" * levels + "}", max_depth=64)


def test_a_number_too_long_to_convert_is_refused_in_words() -> None:
    assert sys.get_int_max_str_digits() < 10_000
    with pytest.raises(ContractError, match="IEEE double"):
        parse_object('{"a": ' + "1" * 10_000 + "}", max_depth=64)


def test_brackets_inside_strings_are_not_depth() -> None:
    assert parse_object('{"a": "' + "[" * 500 + '"}', max_depth=4)["a"].value == "[" * 500


def test_a_value_without_json_form_is_refused_when_made() -> None:
    for value in ({1, 2}, object(), {"a": b"bytes"}, 2**70, "\ud800"):
        with pytest.raises(ContractError, match="invalid"):
            JsonText.of(value)


def test_equal_texts_are_equal_values_of_a_set() -> None:
    assert JsonText(text='{"a":1}') == JsonText.of({"a": 1})
    assert len({JsonText(text='{"a":1}'), JsonText.of({"a": 1})}) == 1


def test_a_representation_shows_no_content() -> None:
    assert "secret" not in repr(JsonText.of({"card": "secret"}))
