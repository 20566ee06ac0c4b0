"""JSON kept as the text that was received, and the strict parse that admits it.

Postgres' ``jsonb`` and many other readers change or refuse text that Python's ``json`` accepts (NUL,
lone surrogates, ``NaN``, doubled keys, numbers beyond an IEEE double). Such text is refused at the door,
and what is accepted is stored and handed on unchanged.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

import orjson
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from triumvir.errors import ContractError

_MAX_EXACT_INTEGER: Final = 2**53 - 1
_NUMBER: Final = "number"


class JsonText:
    """A JSON value as text, as a Python value, or both; each is made from the other when first needed."""

    __slots__ = ("_text", "_value")
    _missing: Final = object()

    def __init__(self, *, text: str | None = None, value: Any = _missing) -> None:
        self._text = text
        self._value = value

    @classmethod
    def of(cls, value: Any) -> JsonText:
        """From a Python value. Raises ContractError if it has no JSON form."""
        made = cls(value=value)
        made.text  # noqa: B018  (the text is made now, so that a value without one fails here)
        return made

    @property
    def text(self) -> str:
        if self._text is None:
            try:
                self._text = orjson.dumps(self._value).decode()
            except (TypeError, ValueError) as error:
                raise ContractError("invalid", "value", str(error), "return plain JSON values") from None
        return self._text

    @property
    def value(self) -> Any:
        if self._value is JsonText._missing:
            self._value = orjson.loads(self._text or "null")
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonText) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"JsonText({len(self.text)} characters)"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else cls(value=value),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda json_text: json_text.value),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {}


def parse_object(text: str, *, max_depth: int) -> dict[str, JsonText]:
    """The top-level members of a JSON object, each with the text it was sent as.

    Raises ContractError (``invalid`` or ``too_deep``) for anything that another reader could take differently.
    """
    decoder = json.JSONDecoder(
        object_pairs_hook=_unique_members,
        parse_int=_exact_integer,
        parse_float=_finite_float,
        parse_constant=_refuse_constant,
    )
    try:
        members = _members(decoder, text)
    except json.JSONDecodeError as error:
        raise ContractError("invalid", "body", f"not JSON: {error}", "send one JSON object") from None
    except RecursionError:
        raise _too_deep(max_depth) from None
    _check_depth(text, members, max_depth)
    if "\\u" in text or "\x00" in text:
        _check_strings({name: member.value for name, member in members.items()})
    return members


def parse_value(text: str, *, max_depth: int) -> JsonText:
    """Any JSON value, under the rules of :func:`parse_object`."""
    members = parse_object(f'{{"value":{text}}}', max_depth=max_depth + 1)
    if list(members) != ["value"]:
        raise ContractError("invalid", "value", "more than one JSON value", "give one")
    return members["value"]


def _members(decoder: json.JSONDecoder, text: str) -> dict[str, JsonText]:
    at = _skip_blanks(text, 0)
    if text[at : at + 1] != "{":
        raise json.JSONDecodeError("expected an object", text, at)
    members: dict[str, JsonText] = {}
    at = _skip_blanks(text, at + 1)
    while text[at : at + 1] != "}":
        if members:
            at = _expect(text, at, ",")
        if text[at : at + 1] != '"':
            raise json.JSONDecodeError("expected a member name", text, at)
        name, at = decoder.raw_decode(text, at)
        at = _expect(text, _skip_blanks(text, at), ":")
        value, end = _value(decoder, text, at, name)
        if name in members:
            raise _doubled(name)
        members[name] = JsonText(text=text[at:end], value=value)
        at = _skip_blanks(text, end)
    if _skip_blanks(text, at + 1) != len(text):
        raise json.JSONDecodeError("text after the object", text, at + 1)
    return members


def _value(decoder: json.JSONDecoder, text: str, at: int, name: str) -> tuple[Any, int]:
    """A member's value and where it ends; of a number that is refused it is said in which member."""
    try:
        return decoder.raw_decode(text, at)
    except ContractError as error:
        if error.field != _NUMBER:
            raise
        raise ContractError(error.reason, name[:80], f"the number {error.problem}", error.fix) from None


def _skip_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t", "\n", "\r"):
        at += 1
    return at


def _expect(text: str, at: int, character: str) -> int:
    if text[at : at + 1] != character:
        raise json.JSONDecodeError(f"expected {character!r}", text, at)
    return _skip_blanks(text, at + 1)


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise _doubled(next(name for name in names if names.count(name) > 1))
    return members


def _doubled(name: str) -> ContractError:
    return ContractError("invalid", name[:80], "the member stands twice", "send each member once")


def _exact_integer(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > _MAX_EXACT_INTEGER:
        raise ContractError(
            "invalid", _NUMBER, f"{text[:40]} is beyond an IEEE double", "send it as a string"
        )
    return int(text)


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ContractError(
            "invalid", _NUMBER, f"{text[:40]} is beyond an IEEE double", "send it as a string"
        )
    return number


def _refuse_constant(text: str) -> Any:
    raise ContractError("invalid", _NUMBER, f"{text} is not JSON", "send null or a string")


def _check_depth(text: str, members: dict[str, JsonText], max_depth: int) -> None:
    if text.count("[") + text.count("{") <= max_depth:
        return
    level: list[Any] = [member.value for member in members.values()]
    for _ in range(max_depth):
        level = [
            child
            for value in level
            if isinstance(value, dict | list)
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    if any(isinstance(value, dict | list) for value in level):
        raise _too_deep(max_depth)


def _too_deep(max_depth: int) -> ContractError:
    return ContractError("too_deep", "body", f"nested deeper than {max_depth}", "flatten the payload")


def _check_strings(value: Any) -> None:
    """Every string, and every member name, can be stored; of one that cannot it is said where it stands."""
    stack: list[tuple[str, Any]] = [("", value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, dict):
            for name, member in item.items():
                where = f"{path}.{name}" if path else name
                _check_string(where, name)
                stack.append((where, member))
        elif isinstance(item, list):
            stack.extend((f"{path}[{place}]", member) for place, member in enumerate(item))
        elif isinstance(item, str):
            _check_string(path, item)


def _check_string(path: str, text: str) -> None:
    if "\x00" in text:
        raise ContractError("invalid", _shown(path), "holds a NUL character", "remove it or encode it")
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise ContractError("invalid", _shown(path), "holds a lone surrogate", "send valid Unicode")


def _shown(path: str) -> str:
    """A path that may itself hold what is refused."""
    return path.replace("\x00", "\\0").encode("utf-8", "backslashreplace").decode()[:80]
