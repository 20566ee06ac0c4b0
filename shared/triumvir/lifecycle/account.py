"""What an order that could not be undone has to say for itself. Data is not part of it: it stays in its rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from triumvir.contracts.account import UndoAccount, UndoOutcome
from triumvir.contracts.messages import Effect
from triumvir.lifecycle.record import OrderRecord, StepRecord
from triumvir.workflow import Stage, Workflow

_LONGEST_ERROR: Final = 1000
_UNDOABLE: Final = ("running", "completed", "failed")


def undo_outcome(undo: str | None, effect: Effect | str, undo_state: str | None) -> UndoOutcome:
    """What became of what a step left: ``undo`` is the operation that takes it back, None if there is none."""
    if undo_state == "undone":
        return "undone"
    if effect == "none":
        return "not_needed"
    if undo is None:
        return "no_undo"
    return "failed" if undo_state == "undo_failed" else "not_undone"


def undo_account(record: OrderRecord, workflow: Workflow | None) -> tuple[UndoAccount, ...]:
    """Of every step that was begun, in order: what it left, and what became of that; errors cut to 1000 characters.

    An order whose definition cannot be read is set aside under another one: its steps have numbers, no names.
    """
    own = workflow is not None and (workflow.name, workflow.version) == (record.workflow, record.version)
    stages = workflow.steps if own and workflow is not None else ()
    begun = (entry for entry in record.steps if entry.state in _UNDOABLE)
    return tuple(
        _of_step(entry, stages[entry.step_no - 1] if entry.step_no <= len(stages) else None)
        for entry in begun
    )


def _of_step(entry: StepRecord, step: Stage | None) -> UndoAccount:
    undo = step.undo if step else "unknown"
    return UndoAccount(
        step=step.name if step else f"step-{entry.step_no}",
        effect=entry.effect,
        outcome=undo_outcome(undo, entry.effect, entry.undo_state),
        step_no=entry.step_no,
        operation=step.operation if step else "",
        undo=step.undo if step else None,
        state=entry.state,
        calls=entry.calls,
        error=_short(entry.error),
        undo_calls=entry.undo_calls,
        undo_tries=entry.undo_tries,
        undo_error=_short(entry.undo_error),
        by_hand=entry.by_hand,
    )


def _short(error: str | None) -> str | None:
    return error if error is None or len(error) <= _LONGEST_ERROR else f"{error[:_LONGEST_ERROR]}…"


def account_summary(steps: Iterable[Any]) -> str:
    """In words: ``undone: book; not undone: charge, reserve``. Each has ``step`` and ``outcome``; empty if nothing is
    to be said.
    """
    said: dict[UndoOutcome, list[str]] = {}
    for step in steps:
        said.setdefault(step.outcome, []).append(step.step)
    parts = [f"{words}: {_names(said[outcome])}" for outcome, words in _WORDS.items() if outcome in said]
    return "; ".join(parts)


_MOST_NAMES: Final = 10
_WORDS: Final[dict[UndoOutcome, str]] = {
    "undone": "undone",
    "failed": "undo failed",
    "not_undone": "not undone",
    "no_undo": "left as it is, without an undo",
}


def _names(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
