"""What the strict parse accepts, every reader takes alike."""

from __future__ import annotations

import json
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from triumvir.contracts.json_text import parse_object
from triumvir.errors import ContractError

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
_PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    _TEXT,
)
_VALUES = st.recursive(
    _PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(_TEXT, _VALUES, max_size=4)
_PIECES = st.sampled_from(
    ["{", "}", "[", "]", ":", ",", '"', "a", "\\u0000", "\\ud83d", "\\ude00", "\\", " ", "\n", "1", "-", ".", "e9",
     "0", "99999999999999999999", "null", "true", "NaN", "Infinity", "\x00", "é", '"a":', '{"a":'],
)  # fmt: skip


@given(_OBJECTS, st.booleans(), st.sampled_from([None, 1, 4]))
def test_what_a_json_writer_makes_is_accepted_unchanged(
    value: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    _agrees(json.dumps(value, ensure_ascii=ascii_only, indent=indent), value)


@given(_OBJECTS, st.lists(st.tuples(st.integers(0, 200), st.integers(0, 3), _PIECES), min_size=1, max_size=4))
def test_damaged_text_is_refused_or_read_as_others_read_it(
    value: dict[str, Any], damages: list[tuple[int, int, str]]
) -> None:
    text = json.dumps(value)
    for at, cut, piece in damages:
        text = text[: at % (len(text) + 1)] + piece + text[at % (len(text) + 1) + cut :]
    _refused_or_agrees(text)


@given(st.lists(_PIECES, max_size=12).map("".join))
def test_text_made_of_json_pieces_is_refused_or_read_as_others_read_it(text: str) -> None:
    _refused_or_agrees('{"a":' + text + "}")


def _refused_or_agrees(text: str) -> None:
    try:
        parse_object(text, max_depth=64)
    except ContractError:
        return
    _agrees(text, json.loads(text))


def _agrees(text: str, expected: dict[str, Any]) -> None:
    members = parse_object(text, max_depth=64)
    assert {name: member.value for name, member in members.items()} == expected
    assert orjson.loads(text) == expected
    for member in members.values():
        assert member.text in text
        assert orjson.loads(member.text) == member.value
