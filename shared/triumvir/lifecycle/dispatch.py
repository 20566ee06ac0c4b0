"""Claims, first sends, re-sends and holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from triumvir.contracts.messages import StatusName
from triumvir.contracts.names import Direction
from triumvir.lifecycle.draft import Draft
from triumvir.lifecycle.record import SendRequest, StepRecord
from triumvir.lifecycle.retry import retry_offset


def claimed(draft: Draft) -> None:
    """A claimable order starts its next attempt, or is held by what stands in its way."""
    record = draft.record
    if record.locked_by is not None or record.held_by is not None:
        return
    if record.state == "pending":
        run_next_step(draft)
    elif record.state == "compensating":
        undo_next_step(draft)


def run_next_step(draft: Draft) -> None:
    """Dispatches the first step that is not completed; without one the order is processed."""
    done = {step.step_no for step in draft.record.steps if step.state == "completed"}
    step_no = next((n for n in range(1, len(draft.workflow.steps) + 1) if n not in done), None)
    if step_no is None:
        draft.move("every step completed", to="processed", tell="completed", **draft.unlocked())
        return
    step = draft.workflow.step(step_no)
    reason = draft.moment.hold_reason(step.agent, step.operation)
    if reason is not None:
        hold(draft, reason)
        return
    lock = _lock(draft)
    before = draft.record.step_record(step_no)
    started = StepRecord(step_no, lock["attempt"])
    if before is not None:
        started = replace(before, state="running", attempt=lock["attempt"], error=None)
    draft.set_step(started)
    _dispatch(draft, step_no, "do", lock, tell="processing" if draft.record.progress else None)


def undo_next_step(draft: Draft) -> None:
    """Dispatches the undo of the latest step that left, or may have left, an effect."""
    entry = next((step for step in reversed(draft.record.steps) if needs_undo(draft, step)), None)
    if entry is None:
        draft.move("nothing left to undo", to="compensated", tell="compensated", **draft.unlocked())
        return
    step = draft.workflow.step(entry.step_no)
    if draft.record.locked_by is not None and entry.step_no > (draft.record.step or 0):
        # Re-opened while an earlier step was being undone. Its former undo was sent by this very attempt: under
        # the same fence a doubled answer of that one would count as the answer of this one.
        draft.move(f"undo of {step.name} needs a new attempt", step_no=entry.step_no, **draft.unlocked())
        return
    reason = draft.moment.hold_reason(step.agent, step.undo or "")
    if reason is not None:
        hold(draft, reason)
        return
    if entry.undo_state is None:
        entry = replace(entry, undo_tries=0)
    draft.set_step(replace(entry, undo_state="undoing", undo_error=None))
    _dispatch(draft, entry.step_no, "undo", _lock(draft))


def needs_undo(draft: Draft, step: StepRecord) -> bool:
    """A step is undone unless nothing happened, nothing is declared to undo it, or it is undone already."""
    declared = draft.workflow.step(step.step_no).undo is not None
    return declared and step.effect != "none" and step.undo_state != "undone"


def hold(draft: Draft, reason: str) -> None:
    """Re-opens the order under a hold: counts stay, the lock goes, the next claim brings a fresh deadline."""
    record = draft.record
    tell: StatusName | None = None
    if not record.told_held and not reason.startswith("window:"):
        tell = "held"
    draft.move(
        f"held: {reason}",
        to="pending" if record.state == "processing" else None,
        tell=tell,
        held_by=reason,
        told_held=record.told_held or tell is not None,
        **draft.unlocked(),
    )


def retry_due(draft: Draft) -> None:
    """Sends an unanswered request again and sets the time of the one after it."""
    record, now = draft.record, draft.moment.now
    waiting = record.locked_by is not None and record.complete_by is not None and record.sent_at is not None
    if not waiting or record.wake_at is None or record.wake_at > now or record.step is None:
        return
    if record.complete_by is None or record.complete_by <= now:
        draft.move("deadline passed before the retry", wake_at=None)
        return
    retries = record.retries + 1
    draft.move(
        f"request sent again, retry {retries}",
        step_no=record.step,
        retries=retries,
        wake_at=_wake_at(draft, record.step, retries + 1),
    )
    draft.send(SendRequest(record.step, record.direction, record.fence, retries))


def _lock(draft: Draft) -> dict[str, Any]:
    """The attempt that dispatches: the one that holds the order, or a new one."""
    record = draft.record
    if record.locked_by is not None:
        return {"locked_by": record.locked_by, "fence": record.fence, "attempt": record.attempt}
    return {"locked_by": draft.moment.lock, "fence": draft.next_fence(), "attempt": record.attempt + 1}


def _dispatch(
    draft: Draft, step_no: int, direction: Direction, lock: dict[str, Any], tell: StatusName | None = None
) -> None:
    step = draft.workflow.step(step_no)
    first = draft.record.state == "pending"
    draft.record = replace(draft.record, sent_at=draft.moment.now)
    verb = "run" if direction == "do" else "undo"
    draft.move(
        f"{verb} {step.name}",
        to="processing" if direction == "do" else None,
        tell=tell if first and lock["attempt"] == 1 else None,
        step_no=step_no,
        step=step_no,
        complete_by=draft.moment.now + draft.policy.of_step(step).timeout,
        wake_at=_wake_at(draft, step_no, 1),
        retries=0,
        not_before=None,
        **lock,
    )
    draft.send(SendRequest(step_no, direction, draft.record.fence))


def _wake_at(draft: Draft, step_no: int, retry: int) -> Any:
    policy = draft.policy.of_step(draft.workflow.step(step_no))
    offset = retry_offset(policy, retry, draft.moment.draw)
    sent_at = draft.record.sent_at
    return None if offset is None or sent_at is None else sent_at + offset
