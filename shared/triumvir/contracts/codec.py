"""Bodies to models and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar, get_args
from uuid import UUID

import orjson
from pydantic import BaseModel, ValidationError

from triumvir.contracts.json_text import JsonText, parse_object
from triumvir.contracts.messages import A_TIME, AnyMessage, Message
from triumvir.errors import ContractError

_BY_TYPE: Final[dict[str, type[AnyMessage]]] = {model.TYPE: model for model in get_args(AnyMessage)}
_M = TypeVar("_M", bound=Message)


def types() -> dict[str, type[AnyMessage]]:
    """Every model by its AMQP ``type``."""
    return dict(_BY_TYPE)


def encode(message: Message) -> bytes:
    """The body of a message. JSON texts go out as they came in."""
    return orjson.dumps(message.__dict__, default=_fragment)


def _fragment(value: Any) -> Any:
    if isinstance(value, JsonText):
        return orjson.Fragment(value.text)
    if isinstance(value, BaseModel):
        return value.__dict__
    if isinstance(value, UUID):  # the database driver's own kind, which orjson does not know
        return str(value)
    raise TypeError(f"no JSON form of {type(value).__name__}")


def decode(type_: str | None, body: bytes) -> AnyMessage:
    """The model of a message between our own processes. Raises ContractError (``unknown_type``, ``invalid``)."""
    model = _BY_TYPE.get(type_ or "")
    if model is None:
        raise ContractError(
            "unknown_type", "type", f"{type_!r} is not known", f"send one of {', '.join(_BY_TYPE)}"
        )
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _contract_error(error) from None


def decode_strictly(model: type[_M], body: bytes, *, max_bytes: int, max_depth: int) -> _M:
    """The model of a message from outside: size, depth and JSON are checked before anything else.

    Raises ContractError (``too_large``, ``too_deep``, ``invalid``) naming the field and the fix.
    """
    if len(body) > max_bytes:
        raise ContractError(
            "too_large", "body", f"{len(body)} bytes, {max_bytes} allowed", "send a reference instead"
        )
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ContractError("invalid", "body", f"not UTF-8: {error.reason}", "send UTF-8") from None
    members = parse_object(text, max_depth=max_depth)
    plain = {name: value if _is_json_text(model, name) else value.value for name, value in members.items()}
    try:
        return model.model_validate(plain)
    except ValidationError as error:
        raise _contract_error(error) from None


def _is_json_text(model: type[Message], name: str) -> bool:
    field = model.model_fields.get(name)
    return field is not None and field.annotation is JsonText


def _contract_error(error: ValidationError) -> ContractError:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "body"
    given = f" (got {str(first['input'])[:80]!r})" if first["type"] != "missing" else ""
    problem = first["msg"].removeprefix("Input ").removeprefix("Value error, ")
    return ContractError(
        "invalid", field, f"{problem}{given}", _fix(first["type"], first.get("ctx", {}), field)
    )


_FIXES: Final = {
    "missing": "add {field!r}",
    "string_pattern_mismatch": "use a-z, 0-9 and '-' for names; printable ASCII without blanks for order ids",
    "string_type": "send a string",
    "string_too_long": "send at most {max_length} characters",
    "string_too_short": "send at least {min_length} characters",
    "int_type": "send a whole number",
    "int_from_float": "send a whole number",
    "int_parsing": "send a whole number",
    "greater_than_equal": "send {ge} or more",
    "greater_than": "send more than {gt}",
    "less_than_equal": "send {le} or less",
    "less_than": "send less than {lt}",
}


def _fix(kind: str, context: Mapping[str, Any], field: str) -> str:
    if "fix" in context:
        return str(context["fix"])
    if kind.startswith(("datetime_", "timezone_")):
        return A_TIME
    return _FIXES.get(kind, "correct {field!r}").format(field=field, **context)


def order_id_of(body: bytes) -> str | None:
    """The order id that a message of a client names, however wrong the rest of it is; None if there is none."""
    try:
        members = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    named = members.get("order_id") if isinstance(members, dict) else None
    return named if isinstance(named, str) and 0 < len(named) <= 100 else None
