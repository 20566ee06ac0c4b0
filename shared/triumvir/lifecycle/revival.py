"""Whoever sent a request is gone: its next retry is brought forward. One is never added."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from triumvir.lifecycle.draft import Draft
from triumvir.lifecycle.events import Revived
from triumvir.lifecycle.record import StepRecord
from triumvir.lifecycle.retry import retry_at
from triumvir.lifecycle.undoing import waits_for_undos
from triumvir.lifecycle.waiting import waiting_step


def revived(draft: Draft, event: Revived) -> None:
    """The next retry of an unanswered request is due ``recovery_delay`` from now, if it was due later. The count of
    retries goes on, so that where none is left nothing happens; nor where the request was answered, or the delay is 0.
    """
    record, now = draft.record, draft.moment.now
    if record.locked_by is None or record.wake_at is None or record.sent_at is None or record.step is None:
        return
    if waiting_step(record) is not None or record.wake_at == record.complete_by:
        return  # at a deadline that leads to another step nothing is sent
    policy = draft.step_policy(record.step)
    left = retry_at(policy, record.retries + 1, draft.moment.draw, record.sent_at, now) is not None
    due = now + policy.recovery_delay
    if not left or not policy.recovery_delay or record.wake_at <= due:
        return
    if record.complete_by is None or record.complete_by <= due:
        return
    draft.move(
        f"{event.why}; retry {record.retries + 1} is brought forward",
        step_no=record.step,
        wake_at=due,
    )


def undos_revived(draft: Draft, event: Revived) -> None:
    """The same for each undo that is not answered yet, by its own policy."""
    brought = [
        replace(entry, undo_wake_at=due)
        for entry in draft.record.undos_out
        if (due := _sooner(draft, entry)) is not None
    ]
    for entry in brought:
        draft.set_step(entry)
    for entry in brought:
        draft.move(
            f"{event.why}; retry {entry.undo_retries + 1} is brought forward",
            step_no=entry.step_no,
            **waits_for_undos(draft),
        )


def _sooner(draft: Draft, entry: StepRecord) -> datetime | None:
    """When the next retry of an undo is due now; None if it has none, or stays as it is."""
    delay = draft.step_policy(entry.step_no).recovery_delay
    due = draft.moment.now + delay
    if not delay or entry.undo_wake_at is None or entry.undo_complete_by is None:
        return None
    return due if due < min(entry.undo_wake_at, entry.undo_complete_by) else None
