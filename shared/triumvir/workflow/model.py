"""What an author writes: a workflow is data, a named and versioned list of steps, validated when built."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Literal

from triumvir.contracts.names import NAME_PATTERN, is_name
from triumvir.errors import DefinitionError

OnError = Literal["halt", "compensate"]
_MAX_STEPS: Final = 1000
_LONGEST: Final = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Step:
    """One stage: an operation of an agent, with its undo.

    ``complete_within`` is the time from the first send to the completing reply; without it the setting
    ``step_timeout`` applies. A step without ``undo`` leaves nothing behind that would have to be undone.
    """

    name: str
    agent: str = field(kw_only=True)
    operation: str = field(kw_only=True)
    undo: str | None = field(default=None, kw_only=True)
    complete_within: timedelta | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for part in ("name", "agent", "operation", "undo"):
            value = getattr(self, part)
            if value is not None or part != "undo":
                _require_name(value, f"step {self.name!r}: {part}")
        if self.undo == self.operation:
            raise DefinitionError(f"step {self.name!r}: undo is the operation itself; name another operation")
        limit = self.complete_within
        if limit is not None and not (isinstance(limit, timedelta) and timedelta(0) < limit <= _LONGEST):
            raise DefinitionError(
                f"step {self.name!r}: complete_within is {limit!r}; give a timedelta above zero, a year at most"
            )


@dataclass(frozen=True, slots=True)
class Workflow:
    """A kind of order: its steps run one after another. ``on_error`` is what follows when a step fails for good:
    ``halt`` (rest in ``error`` until an operator decides) or ``compensate`` (undo what was done).
    """

    name: str
    version: int
    steps: Sequence[Step]
    on_error: OnError = "halt"

    def __post_init__(self) -> None:
        _require_name(self.name, "workflow name")
        object.__setattr__(self, "steps", tuple(self.steps))
        where = f"workflow {self.name!r}"
        if (
            isinstance(self.version, bool)
            or not isinstance(self.version, int)
            or not 1 <= self.version < 2**31
        ):
            raise DefinitionError(f"{where}: version is {self.version!r}; give a whole number from 1")
        if self.on_error not in ("halt", "compensate"):
            raise DefinitionError(f"{where}: on_error is {self.on_error!r}; give 'halt' or 'compensate'")
        if not 1 <= len(self.steps) <= _MAX_STEPS:
            raise DefinitionError(f"{where}: {len(self.steps)} steps; give 1 to {_MAX_STEPS}")
        self._check_steps(where)

    def _check_steps(self, where: str) -> None:
        seen: set[str] = set()
        for step in self.steps:
            if not isinstance(step, Step):
                raise DefinitionError(
                    f"{where}: {step!r} is not a Step; write Step(name, agent=…, operation=…)"
                )
            if step.name in seen:
                raise DefinitionError(f"{where}: two steps are named {step.name!r}; rename one")
            seen.add(step.name)

    def step(self, step_no: int) -> Step:
        """The step with this ordinal, counted from 1."""
        return self.steps[step_no - 1]

    def to_json(self) -> str:
        """One spelling per definition, so that equal definitions have equal digests."""
        return json.dumps(
            {
                "name": self.name,
                "version": self.version,
                "on_error": self.on_error,
                "steps": [_step_members(step) for step in self.steps],
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> Workflow:
        """The definition that ``to_json`` wrote. Raises DefinitionError for anything else."""
        try:
            members = json.loads(text)
            steps = [_step_of(step) for step in members.pop("steps")]
            return cls(steps=steps, **members)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DefinitionError(f"not a workflow definition: {error}") from None

    def digest(self) -> bytes:
        """SHA-256 of the definition: 32 bytes."""
        return hashlib.sha256(self.to_json().encode()).digest()


def _step_members(step: Step) -> dict[str, Any]:
    members: dict[str, Any] = {"name": step.name, "agent": step.agent, "operation": step.operation}
    if step.undo is not None:
        members["undo"] = step.undo
    if step.complete_within is not None:
        members["complete_within_ms"] = round(step.complete_within / timedelta(milliseconds=1))
    return members


def _step_of(members: dict[str, Any]) -> Step:
    within = members.pop("complete_within_ms", None)
    return Step(**members, complete_within=None if within is None else timedelta(milliseconds=within))


def _require_name(value: object, where: str) -> None:
    if not isinstance(value, str) or not is_name(value):
        raise DefinitionError(f"{where} is {value!r}; it must match {NAME_PATTERN}")
