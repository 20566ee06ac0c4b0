"""What an outbox row can refer to: a closed set, written as JSON lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, assert_never
from uuid import UUID

import orjson

from triumvir.contracts.names import Direction


@dataclass(frozen=True, slots=True)
class RequestRef:
    """The request of an order's step, as long as that attempt still wants it."""

    no: int
    step_no: int
    direction: Direction
    fence: int


@dataclass(frozen=True, slots=True)
class StatusRef:
    """The status told by a history row."""

    no: int
    n: int


@dataclass(frozen=True, slots=True)
class AlertRef:
    """The alert about a history row."""

    kind: str
    no: int
    n: int


@dataclass(frozen=True, slots=True)
class LetterRef:
    """A dead letter: its copy, its alert, and the answer to its sender."""

    id: UUID


Ref = RequestRef | StatusRef | AlertRef | LetterRef
_REQUEST: Final = "request"
_STATUS: Final = "status"
_ALERT: Final = "alert"
_LETTER: Final = "dead_letter"


def write(refs: Iterable[Ref]) -> str:
    """The text of ``outbox.refs``."""
    return orjson.dumps([_fields(ref) for ref in refs]).decode()


def read(text: str) -> list[Ref]:
    """The references of an outbox row. ValueError for what this release does not know."""
    return [_ref(*fields) for fields in orjson.loads(text)]


def _fields(ref: Ref) -> list[object]:
    match ref:
        case RequestRef(no, step_no, direction, fence):
            return [_REQUEST, no, step_no, direction, fence]
        case StatusRef(no, n):
            return [_STATUS, no, n]
        case AlertRef(kind, no, n):
            return [_ALERT, kind, no, n]
        case LetterRef(id):
            return [_LETTER, str(id)]
        case _:
            assert_never(ref)


def _ref(tag: str, *fields: object) -> Ref:
    match tag, fields:
        case "request", (int(no), int(step_no), "do" | "undo" as direction, int(fence)):
            return RequestRef(no, step_no, direction, fence)
        case "status", (int(no), int(n)):
            return StatusRef(no, n)
        case "alert", (str(kind), int(no), int(n)):
            return AlertRef(kind, no, n)
        case "dead_letter", (str(id),):
            return LetterRef(UUID(id))
        case _:
            raise ValueError(f"unknown outbox reference {tag!r}")
