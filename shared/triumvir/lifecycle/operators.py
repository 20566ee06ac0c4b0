"""What operators may do with an order: retry or skip what failed, undo it, go on undoing, close it; pause it."""

from __future__ import annotations

from typing import Final, assert_never

from msgspec.structs import replace

from triumvir.lifecycle import budget
from triumvir.lifecycle.draft import Draft
from triumvir.lifecycle.events import Action, OperatorAsked
from triumvir.lifecycle.failure import begin_compensation, cancel
from triumvir.lifecycle.pauses import pause, unpause
from triumvir.lifecycle.record import StepRecord

_VERBS: Final[dict[Action, str]] = {
    "retry": "retried",
    "skip": "skipped",
    "compensate": "compensated",
    "resume": "compensation resumed",
    "close": "closed",
    "pause": "paused",
    "unpause": "unpaused",
}


def operator_words(action: Action, by: str, reason: str | None) -> str:
    """What the history says, among other words, of a move that was made."""
    return f"{_VERBS[action]} by {by}{f': {reason}' if reason else ''}"


def operator_asked(draft: Draft, asked: OperatorAsked) -> None:
    """Moves the order if it is still as the operator saw it; otherwise its history says why it was not moved."""
    if asked.fence is not None and asked.fence != draft.record.fence:
        _refuse(draft, asked, "the order has moved on since it was looked at")
        return
    match asked.action:
        case "retry":
            _retry(draft, asked)
        case "skip":
            _skip(draft, asked)
        case "compensate":
            _compensate(draft, asked)
        case "resume":
            _resume(draft, asked)
        case "close":
            _close(draft, asked)
        case "pause":
            pause(draft, asked)
        case "unpause":
            unpause(draft, asked)
        case _:
            assert_never(asked.action)


def _retry(draft: Draft, asked: OperatorAsked) -> None:
    """The order goes on with the step that failed, with counts of failures anew. A step of which every request was
    answered without effect gets a new idempotency key: under the old one a service may remember its refusal.
    """
    if draft.record.state != "error":
        _refuse(draft, asked, _state(draft))
        return
    step = _failed_step(draft)
    if step is not None:
        unharmed = step.begun and step.effect == "none"
        draft.set_step(replace(step, generation=step.generation + unharmed, asking=False))
    _go_on(draft, _words(asked))


def _skip(draft: Draft, asked: OperatorAsked) -> None:
    """The operator has done by hand what failed, or its undo, and says what it returned."""
    if draft.record.state == "error":
        _skip_step(draft, asked)
    elif draft.record.state == "compensation_failed":
        _skip_undo(draft, asked)
    else:
        _refuse(draft, asked, _state(draft))


def _skip_step(draft: Draft, asked: OperatorAsked) -> None:
    step = _failed_step(draft)
    if step is None:
        _refuse(draft, asked, "no step of it has failed; retry it")
    elif asked.under_way:
        _refuse(draft, asked, _still_calling(draft, step))
    else:
        draft.set_step(
            replace(step, state="completed", effect="certain", result=asked.result or "null", by_hand=True)
        )
        _go_on(draft, f"{_name(draft, step)} done by hand: {_words(asked)}")


def _skip_undo(draft: Draft, asked: OperatorAsked) -> None:
    """Of several undos that failed it is the order's present one: the others are tried anew."""
    step = draft.record.step_record(draft.record.step or 0)
    if step is None or step.undo_state != "undo_failed":
        _refuse(draft, asked, "no undo of it has failed; resume it")
    elif asked.under_way:
        _refuse(draft, asked, _still_calling(draft, step))
    else:
        draft.set_step(replace(step, undo_state="undone", by_hand=True))
        _try_undos_anew(draft)
        begin_compensation(draft, f"{_name(draft, step)} undone by hand: {_words(asked)}")


def _compensate(draft: Draft, asked: OperatorAsked) -> None:
    """What was done is undone: at once if the order rests, else as a cancel would have it."""
    if draft.record.state == "error":
        begin_compensation(draft, _words(asked))
    elif draft.record.state in ("pending", "processing"):
        cancel(draft, asked.reason, asked.by)
    else:
        _refuse(draft, asked, _state(draft))


def _resume(draft: Draft, asked: OperatorAsked) -> None:
    """Compensation goes on at the undos that failed, with their tries anew."""
    if draft.record.state != "compensation_failed":
        _refuse(draft, asked, _state(draft))
        return
    _try_undos_anew(draft)
    begin_compensation(draft, _words(asked))


def _try_undos_anew(draft: Draft) -> None:
    for step in draft.record.steps:
        if step.undo_state == "undo_failed":
            # Not as if none had been begun: a late success must not meet its key in the memory of the service.
            draft.set_step(
                replace(step, undo_state="undoing", undo_tries=0, undo_limit=None, undo_error=None)
            )


def _close(draft: Draft, asked: OperatorAsked) -> None:
    """An end: whatever is left to do is done outside."""
    if draft.record.state not in ("error", "compensation_failed"):
        _refuse(draft, asked, _state(draft))
        return
    draft.move(_words(asked), to="closed", tell="closed", step_no=draft.record.step)


def _go_on(draft: Draft, why: str) -> None:
    draft.move(
        why,
        to="pending",
        tell="retrying",
        step_no=draft.record.step,
        failure_count=0,
        unbegun_count=0,
        budget=budget.renewed(draft),
        told_retrying=True,
        not_before=None,
        cancel_requested=False,
        fence=draft.next_fence(),
    )


def _failed_step(draft: Draft) -> StepRecord | None:
    step = draft.record.step_record(draft.record.step or 0)
    return step if step is not None and step.state == "failed" else None


def _refuse(draft: Draft, asked: OperatorAsked, why: str) -> None:
    draft.move(f"{asked.action} by {asked.by} refused: {why}")


def _state(draft: Draft) -> str:
    return f"the order is {draft.record.state}"


def _still_calling(draft: Draft, step: StepRecord) -> str:
    return f"a call for {_name(draft, step)} may still be under way; ask again once its deadline has passed"


def _words(asked: OperatorAsked) -> str:
    return operator_words(asked.action, asked.by, asked.reason)


def _name(draft: Draft, step: StepRecord) -> str:
    return draft.workflow.step(step.step_no).name
