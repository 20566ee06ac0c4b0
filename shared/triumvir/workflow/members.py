"""Checks that every kind of step shares: names, durations, expressions, and the members of its JSON form."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from triumvir.contracts.names import NAME_PATTERN, is_name
from triumvir.errors import DefinitionError
from triumvir.workflow.durations import LONGEST, MILLISECOND
from triumvir.workflow.expressions import Expression, compiled

_LONGEST_MS: Final = LONGEST // MILLISECOND


def members_of(
    value: object, where: str, needed: tuple[str, ...], optional: tuple[str, ...]
) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DefinitionError(f"{where} is {value!r:.80}; give an object with {', '.join(needed)}")
    missing = [name for name in needed if name not in value]
    if missing:
        raise DefinitionError(f"{where}: {missing[0]} is missing; add it")
    unknown = sorted(set(value) - {*needed, *optional})
    if unknown:
        allowed = ", ".join((*needed, *optional))
        raise DefinitionError(f"{where}: {unknown[0]!r:.80} is unknown; the members are {allowed}")
    return dict(value)


def is_duration(value: object) -> bool:
    return isinstance(value, timedelta) and timedelta(0) < value <= LONGEST and not value % MILLISECOND


def require_name(
    value: object, what: str, *, where: str | None = None, path: tuple[str | int, ...] = ()
) -> None:
    if not isinstance(value, str) or not is_name(value):
        raise DefinitionError(f"{what} is {value!r}; it must match {NAME_PATTERN}", where=where, path=path)


def span_of(value: object, where: str, name: str) -> timedelta:
    """A member that counts milliseconds. Raises DefinitionError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LONGEST_MS:
        raise DefinitionError(f"{where}: {name} is {value!r:.80}; give 1 to {_LONGEST_MS}")
    return timedelta(milliseconds=value)


def compiled_at(text: object, where: str, path: tuple[str, ...]) -> Expression:
    field_name = ".".join(path)
    if not isinstance(text, str):
        problem = f"{field_name} is {text!r:.80}; give a JMESPath expression as text"
        raise DefinitionError(problem, where=where, path=path)
    try:
        return compiled(text)
    except DefinitionError as error:
        problem = f"{field_name} {error.problem}"
        raise DefinitionError(problem, where=where, path=path, offset=error.offset) from None
