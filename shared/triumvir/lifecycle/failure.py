"""Deadlines that passed, giving up, cancelling, and the start of compensation."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from triumvir.contracts.account import to_text
from triumvir.contracts.messages import Effect, StatusName
from triumvir.lifecycle import budget
from triumvir.lifecycle.account import undo_account
from triumvir.lifecycle.course import ask, lead_on, timeout_target
from triumvir.lifecycle.draft import Draft
from triumvir.lifecycle.record import StepRecord
from triumvir.lifecycle.retry import next_attempt, reopen_backoff, spread

UNBEGUN_ALERT: Final = 3
"""So many attempts in a row that no agent began raise an alert."""


def expired(draft: Draft, *, begun: bool, calls: int = 0, recorded: bool = False) -> None:
    """The decision on an order whose deadline passed: lead it to another step, re-open it, or give it up."""
    record = draft.record
    if record.locked_by is None or record.complete_by is None or record.complete_by > draft.moment.now:
        return
    step = record.step_record(record.step or 0)
    if step is None:
        raise LookupError(f"{record.key}: step {record.step} is locked without its record")
    if record.state == "processing":
        _expired_step(draft, replace(step, calls=max(step.calls, calls)), begun, recorded)


def _expired_step(draft: Draft, step: StepRecord, begun: bool, recorded: bool) -> None:
    name, unanswered, asked = draft.workflow.step(step.step_no).name, step.state == "running", step.asking
    target = timeout_target(draft, step.step_no) if unanswered else None
    # A request that was answered was begun, whatever its calls; of one that is asked about, it was known before.
    begun = begun or not unanswered or asked or target is not None
    if unanswered:
        effect = "unknown" if begun and step.effect == "none" else step.effect
        error = step.error if not begun else "no answer before the deadline"
        step = replace(step, state="failed", effect=effect, error=error)
    step = replace(step, asking=False)
    draft.set_step(step)
    once = not draft.workflow.step(step.step_no).recoverable
    spent = budget.spent_words(draft, step)
    wait = None if asked or spent else _wait(draft, step.step_no, draft.record.failure_count + 1)
    if draft.record.cancel_requested:
        cancel_now(draft, "cancelled, as was asked for")
    elif target is not None:
        lead_on(draft, step, target)
    elif not begun:
        reopen_unbegun(draft, f"no agent began {name}")
    elif unanswered and wait is None and not asked and (recorded or once):
        ask(draft, step)
    elif wait is not None:
        _reopen(draft, f"{name}: attempt failed ({step.error}); it is tried again", wait)
    elif asked and unanswered:
        give_up(draft, f"{name}: nobody said what came of it: {step.error}")
    elif once:
        give_up(draft, f"{name} failed, and runs once only: {step.error}")
    elif spent is not None:
        give_up(draft, f"{name} failed ({step.error}), and {spent}")
    else:
        give_up(draft, f"{name} failed {draft.record.failure_count + 1} times: {step.error}")


def _wait(draft: Draft, step_no: int, failures: int) -> timedelta | None:
    return next_attempt(draft.step_policy(step_no), failures, draft.moment.draw)


def _reopen(draft: Draft, why: str, wait: timedelta) -> None:
    record = draft.record
    tell: StatusName | None = None if record.told_retrying else "retrying"
    draft.move(
        why,
        to="pending",
        tell=tell,
        step_no=record.step,
        failure_count=record.failure_count + 1,
        unbegun_count=0,
        told_retrying=True,
        not_before=draft.moment.now + wait,
        **draft.unlocked(),
    )


def reopen_unbegun(draft: Draft, why: str) -> None:
    """Nobody called anything: that burns nothing. From the second in a row on it waits as after a failure, so
    that agents who cannot keep up are not sent the same again at once; three in a row are told to the operators.
    """
    record, policy = draft.record, draft.step_policy(draft.record.step or 1)
    unbegun = record.unbegun_count + 1
    again = unbegun > 1
    backoff = reopen_backoff(unbegun - 1, policy.reopen_backoff, policy.reopen_backoff_max)
    wait = spread(backoff, policy.jitter_factor, draft.moment.draw) if again else None
    draft.move(
        f"{why}; held back, nothing is counted",
        to="pending" if record.state == "processing" else None,
        step_no=record.step,
        unbegun_count=unbegun,
        not_before=None if wait is None else draft.moment.now + wait,
        **draft.unlocked(),
    )
    if unbegun == UNBEGUN_ALERT:
        draft.alert("never-begun")


def give_up(draft: Draft, why: str) -> None:
    """A step failed for good: what ``on_error`` of the workflow says, or a cancel that waited for this."""
    if draft.record.cancel_requested:
        cancel_now(draft, f"{why}; cancelled, as was asked for")
        return
    if draft.workflow.on_error == "compensate":
        begin_compensation(draft, why)
        return
    draft.move(why, to="error", tell="failed", step_no=draft.record.step, **draft.unlocked())
    draft.alert("order-halted")


def begin_compensation(draft: Draft, why: str) -> None:
    """The order will be undone. It is claimable again at once; the claim dispatches the first undo."""
    draft.move(
        why,
        to="compensating",
        tell="compensating",
        step_no=draft.record.step,
        held_by=None,
        not_before=None,
        failure_count=0,
        unbegun_count=0,
        cancel_requested=False,
        **draft.unlocked(),
    )


def compensation_failed(draft: Draft, why: str) -> None:
    """An undo failed for good: the order rests until an operator decides. What was undone and what was not is written
    down as it is now.
    """
    failed = [entry.step_no for entry in draft.record.steps if entry.undo_state == "undo_failed"]
    step_no = draft.record.step if draft.record.step in failed or not failed else failed[-1]
    draft.move(
        why,
        to="compensation_failed",
        tell="compensation_failed",
        account=to_text(undo_account(draft.record, draft.workflow)),
        step_no=step_no,
        step=step_no,
        held_by=None,
        **draft.unlocked(),
    )
    draft.alert("compensation-failed")


def cancel(draft: Draft, reason: str | None, by: str) -> None:
    """A cancel: at once if nothing is under way, else at the reply or the deadline."""
    record = draft.record
    why = f"cancelled by {by}{f': {reason}' if reason else ''}"
    step = record.step_record(record.step or 0)
    answered = record.state == "processing" and step is not None and step.state != "running"
    if answered or record.state in ("pending", "error"):
        cancel_now(draft, why)
    elif record.state == "processing":
        if not record.cancel_requested:
            draft.move(f"{why}; takes effect at the answer or the deadline", cancel_requested=True)
    elif record.state == "compensating":
        draft.move("cancel asked for; the order is being undone already", tell="compensating")
    else:
        draft.move(f"cancel refused: the order is {record.state}", tell="cancel_refused")


def cancel_now(draft: Draft, why: str) -> None:
    """No request is under way: cancelled if nothing was ever begun, else undone."""
    if draft.record.begun or draft.record.state == "error":
        begin_compensation(draft, why)
    else:
        draft.move(
            why, to="cancelled", tell="cancelled", held_by=None, cancel_requested=False, **draft.unlocked()
        )


def broken(draft: Draft, problem: str) -> None:
    """Deciding or writing this order failed: it rests with an alert, so that its neighbours go on."""
    record = draft.record
    step = record.step_record(record.step or 0)
    if record.state in ("pending", "processing"):
        if step is not None and step.state == "running":
            # Its request is on its way and nobody will wait for the answer: in doubt, so that it can be undone.
            effect: Effect = "unknown" if step.effect == "none" else step.effect
            failed = replace(step, state="failed", effect=effect, error=problem)
            draft.set_step(budget.charged(draft, failed))
        draft.move(problem, to="error", tell="failed", step_no=record.step, held_by=None, **draft.unlocked())
        draft.alert("order-halted")
    elif record.state == "compensating":
        waiting = (step,) if step is not None and step.undo_state == "undoing" else ()
        for entry in record.undos_out or waiting:
            entry = budget.undo_charged(draft, entry)
            draft.set_step(replace(entry, undo_state="undo_failed", undo_error=problem))
        compensation_failed(draft, problem)
