"""What an author writes: a workflow is data, a named and versioned list of steps, validated when built."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from triumvir.errors import DefinitionError
from triumvir.workflow.classification import Classification, check_classification, check_retention
from triumvir.workflow.durations import MILLISECOND
from triumvir.workflow.expressions import Expression, compiled
from triumvir.workflow.members import compiled_at, is_duration, members_of, require_name, span_of
from triumvir.workflow.routes import ROUTE_MEMBERS, check_routes
from triumvir.workflow.undo_order import UndoOrder, check_is_ranked, check_rank, check_undo_order
from triumvir.workflow.waiting import Wait, wait_of

OnError = Literal["halt", "compensate"]
MAX_STEPS: Final = 1000
_OPTIONAL: Final = ("on_error", "undo_order", "classification", "retention_days")
MAX_ARGUMENTS: Final = 100
LONGEST_ARGUMENT_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class Step:
    """One stage: an operation of an agent, with its undo.

    ``name``, ``agent``, ``operation`` and ``undo`` are names of 1 to 40 of ``a-z``, ``0-9`` and ``-``.
    ``complete_within`` is the time from the first send to the completing reply, above zero and at most a year;
    without it the setting ``step_timeout`` applies. A step without ``undo`` leaves nothing behind that would have to
    be undone. ``undo_rank``, 1 to 1000, is for workflows that are undone by rank.

    ``when`` and ``select`` are JMESPath over an order's data: ``payload``, ``order`` and ``steps``. ``when``: the
    step is skipped if it is false; it must be true or false. ``select``: what operation and undo receive instead of
    the payload, one expression, or a mapping from the names of members to an expression each.

    ``on_timeout`` names a later step to which the order goes when this one's time is over without an answer; what lies
    between is passed over. ``main_line=False``: the step is run only if a time-out leads to it. ``recoverable=False``:
    the operation is called once; what came of it is asked for, and never tried again.

    Raises :class:`~triumvir.errors.DefinitionError`, naming the fault and the fix.
    """

    name: str
    agent: str = field(kw_only=True)
    operation: str = field(kw_only=True)
    undo: str | None = field(default=None, kw_only=True)
    complete_within: timedelta | None = field(default=None, kw_only=True)
    when: str | None = field(default=None, kw_only=True)
    select: str | Mapping[str, str] | None = field(default=None, kw_only=True, hash=False)
    undo_rank: int | None = field(default=None, kw_only=True)
    on_timeout: str | None = field(default=None, kw_only=True)
    main_line: bool = field(default=True, kw_only=True)
    recoverable: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        where = f"step {self.name!r}"
        for part in ("name", "agent", "operation", "undo", "on_timeout"):
            value = getattr(self, part)
            if value is not None or part not in ("undo", "on_timeout"):
                require_name(value, part, where=where, path=(part,))
        for part in ("main_line", "recoverable"):
            if not isinstance(getattr(self, part), bool):
                problem = f"{part} is {getattr(self, part)!r}; give True or False"
                raise DefinitionError(problem, where=where, path=(part,))
        if self.undo == self.operation:
            problem = "undo is the operation itself; name another operation"
            raise DefinitionError(problem, where=where, path=("undo",))
        if self.undo_rank is not None:
            check_rank(self.undo_rank, self.undo, where)
        if self.complete_within is not None and not is_duration(self.complete_within):
            problem = (
                f"complete_within is {self.complete_within!r}; give a timedelta of whole"
                " milliseconds, above zero, a year at most"
            )
            raise DefinitionError(problem, where=where, path=("complete_within",))
        if isinstance(self.select, Mapping):
            _check_arguments(self.select, where)
            object.__setattr__(self, "select", MappingProxyType(dict(sorted(self.select.items()))))
        for path, text in self._texts():
            compiled_at(text, where, path)

    def _texts(self) -> list[tuple[tuple[str, ...], Any]]:
        found: list[tuple[tuple[str, ...], Any]] = [] if self.when is None else [(("when",), self.when)]
        if isinstance(self.select, Mapping):
            found += [(("select", name), text) for name, text in self.select.items()]
        elif self.select is not None:
            found.append((("select",), self.select))
        return found

    def expressions(self) -> list[tuple[tuple[str, ...], Expression]]:
        """Its condition and its selections, each with the path to it: ``("select", "amount")``."""
        return [(path, compiled(text)) for path, text in self._texts()]


Stage: TypeAlias = Step | Wait
"""What a workflow is made of: an operation of an agent, or a wait for a signal."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """A kind of order: its steps, each a :class:`Step` or a :class:`Wait`, run one after another.

    ``version`` is a whole number from 1; a version never changes once it is registered. ``steps``: 1 to 1000, with
    names of their own. ``on_error`` is what follows when a step fails for good: ``halt`` (rest in ``error`` until an
    operator decides) or ``compensate`` (undo what was done). ``undo_order``: ``reverse`` undoes one step after another,
    from the last to the first; ``by-rank`` by ``undo_rank``, the lowest first, steps of equal rank at the same time;
    ``parallel`` all at the same time. ``classification``: what is ``confidential`` is told to nobody but agents and the
    order's own client; ``retention_days``: how long an ended order is to be kept, None for no limit.
    Raises :class:`~triumvir.errors.DefinitionError`, naming the fault and the fix.
    """

    name: str
    version: int
    steps: Sequence[Stage]
    on_error: OnError = "halt"
    undo_order: UndoOrder = "reverse"
    classification: Classification = "open"
    retention_days: int | None = None

    def __post_init__(self) -> None:
        require_name(self.name, "workflow name", path=("name",))
        where = f"workflow {self.name!r}"
        if not isinstance(self.steps, Iterable):
            raise DefinitionError(f"{where}: steps is {self.steps!r}; give a list of steps")
        object.__setattr__(self, "steps", tuple(self.steps))
        if (
            isinstance(self.version, bool)
            or not isinstance(self.version, int)
            or not 1 <= self.version < 2**31
        ):
            problem = f"version is {self.version!r}; give a whole number from 1"
            raise DefinitionError(problem, where=where, path=("version",))
        if self.on_error not in ("halt", "compensate"):
            problem = f"on_error is {self.on_error!r}; give 'halt' or 'compensate'"
            raise DefinitionError(problem, where=where, path=("on_error",))
        check_undo_order(self.undo_order, where)
        check_classification(self.classification, where)
        check_retention(self.retention_days, where)
        if not 1 <= len(self.steps) <= MAX_STEPS:
            problem = f"{len(self.steps)} steps; give 1 to {MAX_STEPS}"
            raise DefinitionError(problem, where=where, path=("steps",))
        self._check_steps(where)

    def _check_steps(self, where: str) -> None:
        earlier: list[str] = []
        for index, step in enumerate(self.steps):
            if not isinstance(step, Step | Wait):
                raise DefinitionError(
                    f"{step!r} is not a Step; write Step(name, agent=…, operation=…) or Wait(name, signal=…, within=…)",
                    where=where,
                    path=("steps", index),
                )
            if step.name in earlier:
                problem = f"two steps are named {step.name!r}; rename one"
                raise DefinitionError(problem, where=where, path=("steps", index, "name"))
            if isinstance(step, Wait) and self.wait_for(step.signal) != (index + 1, step):
                problem = f"two steps wait for the signal {step.signal!r}; give each a signal of its own"
                raise DefinitionError(problem, where=where, path=("steps", index, "signal"))
            _check_references(step, earlier, where, ("steps", index))
            check_is_ranked(
                step.undo_rank, step.undo, self.undo_order, f"{where}: step {step.name!r}", ("steps", index)
            )
            earlier.append(step.name)
        check_routes(tuple(self.steps), where)

    def undo_rank(self, step_no: int) -> int:
        """When a step is undone: the lowest rank first, equal ranks at the same time."""
        if self.undo_order == "reverse":
            return -step_no
        return self.step(step_no).undo_rank or 0

    @property
    def is_confidential(self) -> bool:
        """Whether its data may be told to agents and to the order's own client only."""
        return self.classification == "confidential"

    @property
    def looks_at_data(self) -> bool:
        """Whether deciding on an order needs its payload: a step has a condition or a selection."""
        return any(step.when is not None or step.select is not None for step in self.steps)

    def step(self, step_no: int) -> Stage:
        """The step with this ordinal, counted from 1."""
        return self.steps[step_no - 1]

    def wait_for(self, signal: str) -> tuple[int, Wait] | None:
        """The step that waits for this signal, with its ordinal; None if there is none."""
        waits = ((no, step) for no, step in enumerate(self.steps, start=1) if isinstance(step, Wait))
        return next(((no, step) for no, step in waits if step.signal == signal), None)

    @property
    def signals(self) -> list[str]:
        """The signals that steps wait for, in order."""
        return [step.signal for step in self.steps if isinstance(step, Wait)]

    def to_json(self) -> str:
        """One spelling per definition, so that equal definitions have equal digests."""
        return json.dumps(
            {
                "name": self.name,
                "version": self.version,
                "on_error": self.on_error,
                **({} if self.undo_order == "reverse" else {"undo_order": self.undo_order}),
                **({} if self.classification == "open" else {"classification": self.classification}),
                **({} if self.retention_days is None else {"retention_days": self.retention_days}),
                "steps": [_step_members(step) for step in self.steps],
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> Workflow:
        """The definition that :meth:`to_json` wrote.

        Raises :class:`~triumvir.errors.DefinitionError` for anything else.
        """
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DefinitionError(f"not a workflow definition: {error}; give one JSON object") from None
        members = members_of(value, "workflow", ("name", "version", "steps"), _OPTIONAL)
        steps = members.pop("steps")
        if not isinstance(steps, list):
            raise DefinitionError(f"workflow: steps is {steps!r:.80}; give a list of steps")
        return cls(steps=[_step_of(step, n) for n, step in enumerate(steps, start=1)], **members)

    def digest(self) -> bytes:
        """SHA-256 of the definition: 32 bytes."""
        return hashlib.sha256(self.to_json().encode()).digest()


def _step_members(step: Stage) -> dict[str, Any]:
    if isinstance(step, Wait):
        return step.members()
    members: dict[str, Any] = {"name": step.name, "agent": step.agent, "operation": step.operation}
    if step.undo is not None:
        members["undo"] = step.undo
    if step.undo_rank is not None:
        members["undo_rank"] = step.undo_rank
    if step.complete_within is not None:
        members["complete_within_ms"] = step.complete_within // MILLISECOND
    if step.when is not None:
        members["when"] = step.when
    if step.select is not None:
        members["select"] = step.select if isinstance(step.select, str) else dict(step.select)
    if step.on_timeout is not None:
        members["on_timeout"] = step.on_timeout
    members |= {part: False for part in ("main_line", "recoverable") if not getattr(step, part)}
    return members


def _step_of(value: object, step_no: int) -> Stage:
    where = f"step {step_no}"
    if isinstance(value, dict) and "signal" in value:
        return wait_of(value, where)
    optional = ("undo", "undo_rank", "complete_within_ms", "when", "select", *ROUTE_MEMBERS)
    members = members_of(value, where, ("name", "agent", "operation"), optional)
    within = members.pop("complete_within_ms", None)
    if within is None:
        return Step(**members)
    return Step(**members, complete_within=span_of(within, where, "complete_within_ms"))


def _check_arguments(select: Mapping[str, str], where: str) -> None:
    if not 1 <= len(select) <= MAX_ARGUMENTS:
        problem = f"select has {len(select)} members; give 1 to {MAX_ARGUMENTS}, or leave it out"
        raise DefinitionError(problem, where=where, path=("select",))
    for name in select:
        if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name) <= LONGEST_ARGUMENT_NAME:
            problem = (
                f"select: {name!r:.80} is no name; give 1 to {LONGEST_ARGUMENT_NAME} printable characters"
            )
            raise DefinitionError(problem, where=where, path=("select",))


def _check_references(step: Stage, earlier: list[str], where: str, path: tuple[str | int, ...]) -> None:
    """An expression looks at earlier steps only: their results are the same whenever it is worked out."""
    for within, expression in step.expressions():
        for name in sorted(expression.steps or ()):
            if name not in earlier:
                known = f"the earlier ones are {', '.join(earlier)}" if earlier else "there is none"
                raise DefinitionError(
                    f"{'.'.join(within)} looks at steps.{name}, which is no earlier step; {known}",
                    where=f"{where}: step {step.name!r}",
                    path=(*path, *within),
                    offset=max(0, expression.text.find(name)),
                )
