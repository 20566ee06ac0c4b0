"""Orders in a file, one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from triumvir.client import Submission
from triumvir.client.submission import MAX_DEPTH
from triumvir.contracts.json_text import JsonText, parse_object
from triumvir.errors import ContractError

MEMBERS: Final = ("order_id", "payload", "workflow", "version", "priority", "not_before", "progress")
"""Of a line that carries its payload in ``payload``. Any other line with an ``order_id`` is a payload itself."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file, numbered from 1: a submission, or the fault that keeps it from being one."""

    number: int
    submission: Submission | None = None
    fault: ContractError | None = None


def read(lines: Iterable[bytes], workflow: str | None) -> Iterator[Line]:
    """Every line that is not blank. ``workflow`` is for the lines that name none."""
    for number, raw in enumerate(lines, 1):
        if not raw.strip():
            continue
        try:
            yield Line(number, submission_of(raw, workflow))
        except ContractError as fault:
            yield Line(number, fault=fault)


def submission_of(raw: bytes, workflow: str | None) -> Submission:
    """The submission on one line. Raises ContractError, naming the member and the fix."""
    try:
        text = raw.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise ContractError(
            "invalid", "line", f"not UTF-8: {error.reason}", "save the file as UTF-8"
        ) from None
    members = parse_object(text, max_depth=MAX_DEPTH)
    order_id = _order_id(members)
    if "payload" not in members:
        return Submission(_workflow(None, workflow), JsonText(text=text), order_id)
    unknown = sorted(set(members) - set(MEMBERS))
    if unknown:
        raise ContractError("invalid", unknown[0], "is not known beside payload", f"use {', '.join(MEMBERS)}")
    named = {name: member.value for name, member in members.items()}
    return Submission(
        workflow=_workflow(named.get("workflow"), workflow),
        payload=JsonText(text=members["payload"].text, value=named["payload"]),
        order_id=order_id,
        version=named.get("version"),
        priority=named.get("priority", 0),
        not_before=_time(named.get("not_before")),
        progress=named.get("progress", False),
    )


def _order_id(members: dict[str, JsonText]) -> str:
    member = members.get("order_id")
    if member is None:
        raise ContractError("invalid", "order_id", "is missing", "name each order by an order_id of its own")
    if not isinstance(member.value, str):
        raise ContractError("invalid", "order_id", f"is {member.text[:40]}, not text", "put it in quotes")
    return member.value


def _workflow(named: Any, default: str | None) -> str:
    chosen = named if named is not None else default
    if chosen is None:
        raise ContractError("invalid", "workflow", "is not named", "add it to the line, or give --workflow")
    return str(chosen)


def _time(text: Any) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise ContractError(
            "invalid", "not_before", f"{str(text)[:40]!r} is no time", "write 2026-01-31T12:00:00Z"
        ) from None
