"""The JSON value that a part of a file of definitions stands for."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from triumvir.workflow.document import Mapping, Node, Scalar, Sequence

_LITERALS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def value_of(node: Node) -> Any:
    """Without quotes, ``true``, ``false``, ``null`` and JSON's numbers are what JSON says they are; all else is text:
    ``no`` is a text, and so is a date.
    """
    match node:
        case Mapping():
            return {key.text: value_of(value) for key, value in node.items}
        case Sequence():
            return [value_of(item) for item in node.items]
        case Scalar():
            return _scalar(node)


def _scalar(node: Scalar) -> Any:
    if not node.plain:
        return node.text
    if node.text in _LITERALS:
        return _LITERALS[node.text]
    return json.loads(node.text) if _NUMBER.fullmatch(node.text) else node.text
