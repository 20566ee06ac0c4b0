"""The account of an order that could not be undone: of each step what was done, what was undone, and what was not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from triumvir.contracts.json_text import JsonText

UndoOutcome = Literal["undone", "failed", "not_undone", "not_needed", "no_undo"]
"""``not_undone``: it is to be undone, and was not (yet). ``not_needed``: it surely left nothing. ``no_undo``: it left
something, and its workflow declares no undo for it.
"""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())


class StepAccount(_Part):
    """What its client is told of a step."""

    step: str
    effect: Literal["none", "unknown", "certain"]
    """What the step left at the remote side. ``unknown``: it was called, and nobody heard what came of it."""
    outcome: UndoOutcome
    """What became of that."""


class UndoAccount(StepAccount):
    """What operators are told of a step: all that is known. ``calls`` and ``undo_calls`` count calls of the remote
    service, as far as agents told of them.
    """

    step_no: Annotated[int, Field(ge=1, lt=2**15)]
    operation: str
    undo: str | None = None
    """The operation that undoes it; None if there is none."""
    state: str
    calls: int = 0
    error: str | None = None
    """Why the step itself failed."""
    undo_calls: int = 0
    undo_tries: int = 0
    """Attempts of the undo that failed."""
    undo_error: str | None = None
    """Why its undo failed, the last time."""
    by_hand: bool = False
    """An operator said that it was done, or undone, outside."""
    argument: JsonText | None = None
    """What operation and undo were given, if the step selects it; otherwise that is the payload."""
    result: JsonText | None = None
    """What the operation returned."""


class Account(_Part):
    """All that an operator needs who finishes the undoing by hand. Data beyond what an alert can hold is left out."""

    payload: JsonText | None = None
    """The order's."""
    steps: tuple[UndoAccount, ...] = ()
    """Those that were begun, in order."""
    left_out: tuple[str, ...] = ()
    """Which data is not here, and why: ``payload: 250000 bytes``."""


_STEPS: Final = TypeAdapter(tuple[UndoAccount, ...])
_DATA: Final = {"argument", "result"}


def to_text(steps: Sequence[UndoAccount]) -> str:
    """As it is kept in the history, without data."""
    return _STEPS.dump_json(tuple(steps), exclude={"__all__": _DATA}, exclude_defaults=True).decode()


def of_text(text: str) -> tuple[UndoAccount, ...]:
    """What :func:`to_text` wrote."""
    return _STEPS.validate_json(text)
