"""Waiting for a signal: a step that nobody runs. It begins, keeps its time while held, and ends at its deadline.

A waiting order is ``processing`` with a lock and a deadline, but no request is out: nothing is sent again, nothing is
counted, and a cancel takes effect at once.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from triumvir.contracts.messages import StatusName
from triumvir.lifecycle.draft import Draft
from triumvir.lifecycle.failure import give_up
from triumvir.lifecycle.record import OrderRecord, StepRecord
from triumvir.workflow import Wait


def waiting_step(record: OrderRecord) -> StepRecord | None:
    """The step that waits for its signal now; None if the order does anything else."""
    step = record.step_record(record.step or 0)
    waits = record.state == "processing" and step is not None and step.state == "waiting"
    return step if waits else None


def begin_wait(draft: Draft, step_no: int, lock: dict[str, Any]) -> None:
    """The order waits from now on; after a hold for what was left then. ``lock``: the attempt that waits."""
    wait, before, now = wait_at(draft, step_no), draft.record.step_record(step_no), draft.moment.now
    left = wait.within if before is None or before.wait_left is None else before.wait_left
    draft.set_step(StepRecord(step_no, lock["attempt"], "waiting"))
    otherwise = "it fails" if wait.default is None else "its default counts"
    draft.move(
        f"{wait.name} waits for signal {wait.signal} until {_spelled(now + left)}; then {otherwise}",
        to="processing",
        tell="held",
        step_no=step_no,
        step=step_no,
        complete_by=now + left,
        wake_at=None,
        sent_at=None,
        retries=0,
        not_before=None,
        **lock,
    )


def take_kept_signal(draft: Draft, step_no: int) -> bool:
    """Whether the signal of a step that is reached now had come before: then it is completed."""
    entry = draft.record.step_record(step_no)
    if entry is None or entry.state != "signalled":
        return False
    draft.set_step(replace(entry, state="completed"))
    tell_completed(draft, step_no, "its signal had come before")
    return True


def tell_completed(draft: Draft, step_no: int, why: str, **changes: Any) -> None:
    """A wait is over, with a result."""
    last = step_no == len(draft.workflow.steps)
    tell: StatusName | None = "step_completed" if draft.record.progress and not last else None
    draft.move(
        f"{wait_at(draft, step_no).name} completed: {why}",
        tell=tell,
        step_no=step_no,
        failure_count=0,
        unbegun_count=0,
        **changes,
    )


def wait_expired(draft: Draft) -> bool:
    """Whether the deadline of a wait has passed: its default counts, or it fails for good.

    With its default the order is claimable again: who sees to deadlines sends no requests.
    """
    record, step = draft.record, waiting_step(draft.record)
    if step is None or record.complete_by is None or record.complete_by > draft.moment.now:
        return False
    wait = wait_at(draft, step.step_no)
    problem = f"no signal {wait.signal} came in time"
    if wait.default_text is None:
        draft.set_step(replace(step, state="failed", error=problem))
        give_up(draft, f"{wait.name} failed: {problem}")
        return True
    draft.set_step(replace(step, state="completed", result=wait.default_text))
    changes = {"to": "pending", "not_before": None, **draft.unlocked()}
    tell_completed(draft, step.step_no, f"{problem}, its default counts", **changes)
    return True


def keep_time_left(draft: Draft) -> None:
    """Before a hold: a deadline that is somebody's own goes on with what is left of it."""
    step, until = waiting_step(draft.record), draft.record.complete_by
    if step is not None and until is not None:
        draft.set_step(replace(step, wait_left=until - draft.moment.now))


def end_waits(draft: Draft) -> None:
    """An order that does not go forward waits for nothing."""
    if draft.record.state in ("pending", "processing"):
        return
    for step in draft.record.steps:
        if step.state == "waiting":
            draft.set_step(replace(step, state="failed", error="no longer waited for", wait_left=None))


def wait_at(draft: Draft, step_no: int) -> Wait:
    """The definition of a step that waits."""
    step = draft.workflow.step(step_no)
    if isinstance(step, Wait):
        return step
    raise LookupError(f"{draft.record.key}: step {step_no} waits for no signal in its definition")


def _spelled(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
