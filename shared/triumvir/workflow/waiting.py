"""A stage at which an order waits for somebody: a person's approval, an event elsewhere."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Final

from triumvir.contracts.json_text import parse_value
from triumvir.errors import ContractError, DefinitionError
from triumvir.workflow.durations import MILLISECOND
from triumvir.workflow.expressions import Expression, compiled
from triumvir.workflow.members import compiled_at, is_duration, members_of, require_name, span_of

LONGEST_DEFAULT: Final = 10_000
"""Characters of a default, as JSON."""
MAX_DEPTH: Final = 16
"""Levels of a default."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A stage that waits for a named signal and runs nothing: a person's approval, an event elsewhere.

    ``name`` and ``signal`` are names of 1 to 40 of ``a-z``, ``0-9`` and ``-``; no two waits of a workflow wait for the
    same signal. The signal's data, a JSON value, is the step's result. ``within``: the time it waits, above zero and
    at most a year; if no signal came by then, ``default`` is its result, a JSON value of at most 10,000 characters.
    Without a default the step fails for good. ``when``: as of a step.

    Raises :class:`~triumvir.errors.DefinitionError`, naming the fault and the fix.
    """

    name: str
    signal: str = field(kw_only=True)
    within: timedelta = field(kw_only=True)
    default: Any = field(default=None, kw_only=True, hash=False)
    when: str | None = field(default=None, kw_only=True)

    # What a step has of its own, a wait has nothing of: no agent is asked for it, and nothing undoes it.
    agent: ClassVar[str] = ""
    operation: ClassVar[str] = ""
    undo: ClassVar[None] = None
    undo_rank: ClassVar[None] = None
    complete_within: ClassVar[None] = None
    select: ClassVar[None] = None
    on_timeout: ClassVar[None] = None
    main_line: ClassVar[bool] = True
    recoverable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        where = f"step {self.name!r}"
        for part in ("name", "signal"):
            require_name(getattr(self, part), part, where=where, path=(part,))
        if not is_duration(self.within):
            problem = f"within is {self.within!r}; give a timedelta of whole milliseconds, above zero, a year at most"
            raise DefinitionError(problem, where=where, path=("within",))
        if self.default is not None:
            object.__setattr__(self, "default", _plain(self.default, where))
        if self.when is not None:
            compiled_at(self.when, where, ("when",))

    def expressions(self) -> list[tuple[tuple[str, ...], Expression]]:
        """Its condition, with the path to it."""
        return [] if self.when is None else [(("when",), compiled(self.when))]

    @property
    def default_text(self) -> str | None:
        """The default as JSON text; None if there is none."""
        return None if self.default is None else _text(self.default)

    def members(self) -> dict[str, Any]:
        """Its JSON form."""
        members: dict[str, Any] = {
            "name": self.name,
            "signal": self.signal,
            "within_ms": self.within // MILLISECOND,
        }
        if self.default is not None:
            members["default"] = self.default
        if self.when is not None:
            members["when"] = self.when
        return members


def wait_of(value: object, where: str) -> Wait:
    """From its JSON form. Raises DefinitionError."""
    members = members_of(value, where, ("name", "signal", "within_ms"), ("default", "when"))
    within = span_of(members.pop("within_ms"), where, "within_ms")
    if "default" in members and members["default"] is None:
        raise DefinitionError(f"{where}: default is null; give a value, or leave it out")
    return Wait(**members, within=within)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _plain(value: Any, where: str) -> Any:
    """The default as JSON has it, a copy of its own. Raises DefinitionError if it has no JSON form."""
    try:
        text = _text(value)
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"default has no JSON form: {error}; give plain JSON values"
        raise DefinitionError(problem, where=where, path=("default",)) from None
    if len(text) > LONGEST_DEFAULT:
        problem = f"default has {len(text)} characters, {LONGEST_DEFAULT} are allowed; shorten it"
        raise DefinitionError(problem, where=where, path=("default",))
    try:
        return parse_value(text, max_depth=MAX_DEPTH).value
    except ContractError as error:
        problem = f"default: {error.problem}; {error.fix}"
        raise DefinitionError(problem, where=where, path=("default",)) from None
