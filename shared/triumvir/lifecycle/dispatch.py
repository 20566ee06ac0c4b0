"""Claims, first sends, re-sends and holds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec.structs import replace

from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import StatusName
from triumvir.errors import ExpressionError
from triumvir.lifecycle import budget
from triumvir.lifecycle.course import ahead, timeout_target
from triumvir.lifecycle.draft import Draft
from triumvir.lifecycle.failure import expired, give_up
from triumvir.lifecycle.inputs import argument, holds
from triumvir.lifecycle.record import SendRequest, StepRecord
from triumvir.lifecycle.retry import retry_at
from triumvir.lifecycle.secrecy import quiet
from triumvir.lifecycle.waiting import begin_wait, keep_time_left, take_kept_signal
from triumvir.workflow import Wait


def claimed(draft: Draft) -> None:
    """A claimable order starts its next attempt to run a step, or is held by what stands in its way."""
    record = draft.record
    if record.locked_by is not None or record.held_by is not None:
        return
    if record.state == "pending":
        run_next_step(draft)


def run_next_step(draft: Draft) -> None:
    """Dispatches the first step that is neither completed nor skipped; without one the order is processed.

    Steps whose condition is false are skipped on the way. A condition or a selection that cannot be worked out is
    a failure of its step for good: it would fail again with the same data.
    """
    for step_no in list(ahead(draft.record, draft.workflow)):
        if draft.withheld is not None:
            hold(draft, draft.withheld)
            return
        try:
            if _is_decided(draft, step_no) or holds(
                draft.record, draft.workflow, step_no, draft.moment.payload
            ):
                if take_kept_signal(draft, step_no):
                    continue
                _run(draft, step_no)
                return
        except ExpressionError as error:
            _cannot_run(draft, step_no, str(error))
            return
        _skip(draft, step_no)
    draft.move(_all_done(draft), to="processed", tell="completed", **draft.unlocked())


def _is_decided(draft: Draft, step_no: int) -> bool:
    """A step that may have been begun is not skipped any more, whatever its condition."""
    before = draft.record.step_record(step_no)
    return before is not None and before.begun


def _run(draft: Draft, step_no: int) -> None:
    step = draft.workflow.step(step_no)
    if isinstance(step, Wait):
        begin_wait(draft, step_no, lock_of(draft))
        return
    argument = argument_of(draft, step_no, bounded=True)
    reason = draft.moment.hold_reason(step.agent, step.operation)
    if reason is not None:
        hold(draft, reason)
        return
    lock = lock_of(draft)
    before = draft.record.step_record(step_no)
    started = StepRecord(step_no, lock["attempt"])
    if before is not None:
        started = replace(before, state="running", attempt=lock["attempt"], error=None)
        spent = None if before.asking else budget.spent_words(draft, before)
        if spent is not None:
            _cannot_go_on(draft, step_no, f"{step.name} is not tried again: {spent}")
            return
    draft.record = replace(draft.record, budget=budget.granted(draft))
    draft.set_step(budget.reserved(draft, started))
    _dispatch(draft, step_no, lock, argument, tell="processing" if draft.record.progress else None)


def _skip(draft: Draft, step_no: int) -> None:
    step, before = draft.workflow.step(step_no), draft.record.step_record(step_no)
    draft.set_step(StepRecord(step_no, draft.record.attempt, state="skipped"))
    condition = " ".join((step.when or "").split())
    why = f"{step.name} skipped: {condition[:200]} is false"
    if before is not None and before.state == "signalled":
        draft.move(f"{why}; its signal is not used", tell="signal_refused", step_no=step_no)
    else:
        draft.move(why, step_no=step_no)


def _cannot_run(draft: Draft, step_no: int, problem: str) -> None:
    before = draft.record.step_record(step_no) or StepRecord(step_no, draft.record.attempt)
    problem = quiet(draft.workflow, problem)
    draft.set_step(replace(before, state="failed", error=problem))
    _cannot_go_on(draft, step_no, f"{draft.workflow.step(step_no).name} cannot be run: {problem}")


def _cannot_go_on(draft: Draft, step_no: int, why: str) -> None:
    draft.record = replace(draft.record, step=step_no, not_before=None)
    give_up(draft, why)


def _all_done(draft: Draft) -> str:
    steps = draft.record.steps
    left = ", ".join(draft.workflow.step(step.step_no).name for step in steps if step.led_to)
    if left:
        return f"every step completed or skipped, but for what timed out: {left}"
    skipped = sum(step.state == "skipped" for step in steps)
    if not skipped:
        return "every step completed"
    return "every step skipped" if skipped == len(steps) else "every step completed or skipped"


def argument_of(draft: Draft, step_no: int, *, bounded: bool = False) -> JsonText | None:
    """What the step selects. Bounds are for its way forward: what it was given once, its undo is given, too."""
    bounds = (draft.policy.most_argument_bytes, draft.policy.most_argument_depth) if bounded else ()
    return argument(draft.record, draft.workflow, step_no, draft.moment.payload, *bounds)


def hold(draft: Draft, reason: str) -> None:
    """Re-opens the order under a hold: counts stay, the lock goes, the next claim brings a fresh deadline."""
    record = draft.record
    tell: StatusName | None = None
    keep_time_left(draft)
    if not record.told_held and not reason.startswith("window:"):
        tell = "held"
    draft.move(
        f"held: {reason}",
        to="pending" if record.state == "processing" else None,
        tell=tell,
        held_by=reason,
        held_at=draft.moment.now,
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
        step = record.step_record(record.step)
        if step is not None and timeout_target(draft, record.step) is not None:
            draft.set_step(budget.charged(draft, step))  # what the inbox says is not looked at here
            expired(draft, begun=True)
        else:
            draft.move("deadline passed before the retry", wake_at=None)
        return
    retries, withheld = record.retries + 1, draft.moment.withheld
    selected = None if withheld else argument_of(draft, record.step)
    draft.move(
        f"retry {retries} not sent: {withheld}" if withheld else f"request sent again, retry {retries}",
        step_no=record.step,
        retries=retries,
        wake_at=_wake_at(draft, record.step, retries + 1, record.complete_by),
    )
    if withheld:
        return
    draft.send(SendRequest(record.step, record.direction, record.fence, retries, selected))


def lock_of(draft: Draft) -> dict[str, Any]:
    """The attempt that dispatches: the one that holds the order, or a new one."""
    record = draft.record
    if record.locked_by is not None:
        return {"locked_by": record.locked_by, "fence": record.fence, "attempt": record.attempt}
    return {"locked_by": draft.moment.lock, "fence": draft.next_fence(), "attempt": record.attempt + 1}


def _dispatch(
    draft: Draft,
    step_no: int,
    lock: dict[str, Any],
    selected: JsonText | None,
    tell: StatusName | None,
) -> None:
    first = draft.record.state == "pending"
    draft.record = replace(draft.record, sent_at=draft.moment.now)
    entry = draft.record.step_record(step_no)
    verb = "ask what came of" if entry is not None and entry.asking else "run"
    complete_by = draft.moment.now + draft.step_policy(step_no).timeout
    draft.move(
        f"{verb} {draft.workflow.step(step_no).name}",
        to="processing",
        tell=tell if first and lock["attempt"] == 1 else None,
        step_no=step_no,
        step=step_no,
        complete_by=complete_by,
        wake_at=_wake_at(draft, step_no, 1, complete_by),
        retries=0,
        not_before=None,
        **lock,
    )
    draft.send(SendRequest(step_no, "do", draft.record.fence, argument=selected))


def _wake_at(draft: Draft, step_no: int, retry: int, complete_by: datetime) -> datetime | None:
    """The next re-send; without one, the deadline if it leads to another step."""
    sent_at, moment = draft.record.sent_at, draft.moment
    due = sent_at and retry_at(draft.step_policy(step_no), retry, moment.draw, sent_at, moment.now)
    return due or (complete_by if timeout_target(draft, step_no) is not None else None)
