"""What a signal means for an order: it ends a wait, is kept for one that is yet to come, or is refused in words.

The first one of its name counts. Whoever sent it is told which: ``signalled`` or ``signal_refused``.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from triumvir.lifecycle.dispatch import run_next_step
from triumvir.lifecycle.draft import Draft
from triumvir.lifecycle.events import Signalled
from triumvir.lifecycle.record import StepRecord
from triumvir.lifecycle.states import StepState
from triumvir.lifecycle.waiting import tell_completed, waiting_step

_SURPLUS: Final[dict[StepState, str]] = {
    "signalled": "has its signal already",
    "completed": "has its answer already",
    "skipped": "was skipped",
    "failed": "waits no more",
}


def signalled(draft: Draft, signal: Signalled) -> None:
    """Folds one signal into the order."""
    refusal = _refusal(draft, signal)
    if refusal is not None:
        draft.move(f"{signal_words(signal)} refused: {refusal}", tell="signal_refused")
        return
    step_no, wait = draft.workflow.wait_for(signal.name) or (0, None)
    waits = waiting_step(draft.record)
    entry = draft.record.step_record(step_no) or StepRecord(step_no, draft.record.attempt)
    if wait is None or waits is None or waits.step_no != step_no:
        draft.set_step(replace(entry, state="signalled", result=signal.data, wait_left=None))
        draft.move(
            f"{signal_words(signal)} kept until its step is reached", tell="signalled", step_no=step_no
        )
        return
    draft.set_step(replace(entry, state="completed", result=signal.data))
    draft.move(f"{signal_words(signal)} came for {wait.name}", tell="signalled", step_no=step_no)
    tell_completed(draft, step_no, "its signal came")
    run_next_step(draft)


def signal_words(signal: Signalled) -> str:
    """How the history begins to tell of a signal."""
    return f"signal {signal.name} from {signal.by}{f' ({signal.reason})' if signal.reason else ''}"


def _refusal(draft: Draft, signal: Signalled) -> str | None:
    """Why it cannot count; None if it does."""
    record, found = draft.record, draft.workflow.wait_for(signal.name)
    if record.state not in ("pending", "processing", "error"):
        return f"the order is {record.state}"
    if found is None:
        known = ", ".join(draft.workflow.signals)
        return (
            f"no step waits for it; {f'the signals are {known}' if known else 'the workflow has no signals'}"
        )
    step_no, wait = found
    entry = record.step_record(step_no)
    if entry is not None and entry.state in _SURPLUS:
        return f"{wait.name} {_SURPLUS[entry.state]}"
    if record.cancel_requested:
        return "a cancel came first"
    waits = waiting_step(record)
    in_time = record.complete_by is not None and record.complete_by > draft.moment.now
    if waits is not None and waits.step_no == step_no and not in_time:
        return f"the time of {wait.name} is over"
    return None
