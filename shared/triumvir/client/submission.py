"""What a client asks for, checked as the submitter will check it before anything is sent."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

import orjson
from pydantic import BaseModel

from triumvir.contracts import codec
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import Message, OrderSubmit
from triumvir.errors import ContractError

MAX_BYTES: Final = 262_144
"""Of a payload, as UTF-8."""
MAX_DEPTH: Final = 64
"""Like MAX_BYTES the submitter's default; where it is set to allow less, the order is rejected there."""
_ENVELOPE_BYTES: Final = 4096
_OPTIONAL: Final = {"version": None, "priority": 0, "not_before": None, "progress": False}
"""Left out where they say nothing: the strict parse at the door costs by the member."""

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, slots=True)
class Submission:
    """One order to submit.

    ``payload`` is an object: a dict, a pydantic model, or JSON text that is sent as it stands; at most 256 KiB and
    64 levels, unless set otherwise. ``order_id``: 1 to 100 visible ASCII characters, unique for this client.
    ``version`` None means the latest at acceptance. A higher ``priority`` (-1000 to 1000) runs earlier. Nothing is
    begun before ``not_before``, which has a time zone. With ``progress`` there are statuses for every step as well.
    """

    workflow: str
    payload: Mapping[str, Any] | BaseModel | JsonText
    order_id: str
    version: int | None = None
    priority: int = 0
    not_before: datetime | None = None
    progress: bool = False

    def body(self, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> tuple[OrderSubmit, bytes]:
        """The message and its body. Raises ContractError, naming the field and the fix, if it would be refused."""
        members: dict[str, Any] = {
            "order_id": self.order_id,
            "workflow": self.workflow,
            "payload": orjson.Fragment(json_text(self.payload)),
        }
        for name, default in _OPTIONAL.items():
            value = getattr(self, name)
            if value != default:
                members[name] = value
        message, body = checked(OrderSubmit, members, max_bytes + _ENVELOPE_BYTES, max_depth)
        size = len(message.payload.text.encode())
        if size > max_bytes:
            problem = f"{size} bytes, {max_bytes} allowed"
            raise ContractError("too_large", "payload", problem, "send a reference instead")
        if not isinstance(message.payload.value, dict):
            raise ContractError("invalid", "payload", "is not an object", "give a dict or a model")
        return message, body


def checked(
    model: type[_M], members: dict[str, Any], max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> tuple[_M, bytes]:
    """The message of these members and its body. Raises ContractError exactly where the submitter would."""
    try:
        body = orjson.dumps(members)
    except (TypeError, ValueError) as error:
        raise ContractError("invalid", "message", str(error), "give plain JSON values") from None
    return codec.decode_strictly(model, body, max_bytes=max_bytes, max_depth=max_depth), body


def fingerprint(message: OrderSubmit) -> bytes:
    """Equal for equal orders, whatever the blanks and the order of members: 16 bytes."""
    what = [message.workflow, message.version, message.payload.value]
    return hashlib.blake2b(orjson.dumps(what, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


def json_text(value: object, member: str = "payload") -> str:
    """The JSON text of a value, a model or a text of JSON. Raises ContractError, naming the ``member`` it is for."""
    if isinstance(value, JsonText):
        return value.text
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    try:
        text = orjson.dumps(value).decode()
    except (TypeError, ValueError) as error:
        raise ContractError("invalid", member, str(error), "give plain JSON values") from None
    if "null" in text and _holds_no_number(value):
        raise ContractError(
            "invalid", member, "holds NaN or Infinity, which JSON has not", "send null or text"
        )
    return text


def _holds_no_number(value: object) -> bool:
    """Whether a float in there is NaN or infinite; orjson writes those as null without a word."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float) and not math.isfinite(item):
            return True
        if isinstance(item, Mapping):
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)
    return False
