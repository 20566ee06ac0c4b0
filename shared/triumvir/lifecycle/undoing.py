"""Undoing: the requests of a wave, and what answers and deadlines mean for each of its entries.

All of a wave goes out under one attempt. Each entry has a deadline, re-sends and tries of its own; the attempt ends
once every entry is answered or out of time. What is undone stays undone, the rest is tried again by the next attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from triumvir.contracts.messages import StepFailed, StepReply, StepSucceeded
from triumvir.lifecycle import budget
from triumvir.lifecycle.dispatch import argument_of, hold, lock_of
from triumvir.lifecycle.draft import Draft
from triumvir.lifecycle.events import Expired
from triumvir.lifecycle.failure import compensation_failed, reopen_unbegun
from triumvir.lifecycle.record import SendRequest, StepRecord
from triumvir.lifecycle.retry import next_attempt, retry_at
from triumvir.lifecycle.waves import can_go_on, next_wave

_MOST_NAMES: Final = 10


def undo_claimed(draft: Draft) -> None:
    """A claimable order that is being undone starts its next attempt, or is held by what stands in its way."""
    if draft.record.locked_by is None and draft.record.held_by is None:
        undo_next(draft)


def undo_next(draft: Draft) -> None:
    """Sends the undos of the next wave: of those that can go now. If none can, the order is held."""
    wave = next_wave(draft.record, draft.workflow)
    if not wave:
        draft.move("nothing left to undo", to="compensated", tell="compensated", **draft.unlocked())
        return
    left = can_go_on(wave)
    if not left:
        compensation_failed(
            draft, f"undo of {_names(draft, wave)} failed: {wave[0].undo_error or budget.UNDO_SPENT}"
        )
        return
    if draft.record.locked_by is not None and any(entry.undo_generation for entry in left):
        # A late success has re-opened it. Its former undo may have been sent by this very attempt: under the same
        # fence a doubled answer of that one would count as the answer of this one.
        why = f"undo of {_names(draft, left)} needs a new attempt"
        draft.move(why, step_no=left[0].step_no, **draft.unlocked())
        return
    reasons = {entry.step_no: _reason_to_hold(draft, entry) for entry in left}
    free = [entry for entry in left if reasons[entry.step_no] is None]
    if not free:
        hold(draft, next(reason for reason in reasons.values() if reason is not None))
        return
    able = [entry for entry in map(partial(_reserved, draft), free) if _can_be_called(draft, entry)]
    if able:
        _send(draft, able)
    else:
        undo_next(draft)


def _reserved(draft: Draft, entry: StepRecord) -> StepRecord:
    """With what its request may make of its calls; one that is begun anew has tries and a limit anew."""
    fresh = replace(entry, undo_tries=0, undo_limit=None) if entry.undo_state is None else entry
    return budget.undo_reserved(draft, fresh)


def _can_be_called(draft: Draft, entry: StepRecord) -> bool:
    """Whether its budget has a call left; without one it has failed for good."""
    if entry.allowed("undo"):
        return True
    draft.set_step(replace(entry, undo_state="undo_failed"))
    why = f"undo of {_name(draft, entry)} is not tried again: {budget.UNDO_SPENT}"
    draft.move(why, step_no=entry.step_no, not_before=None)
    return False


def _reason_to_hold(draft: Draft, entry: StepRecord) -> str | None:
    step = draft.workflow.step(entry.step_no)
    return draft.withheld or draft.moment.hold_reason(step.agent, step.undo or "")


def _send(draft: Draft, entries: Sequence[StepRecord]) -> None:
    draft.record = replace(draft.record, not_before=None, **lock_of(draft))
    selected = {entry.step_no: argument_of(draft, entry.step_no) for entry in entries}
    for entry in entries:
        draft.set_step(_sent(draft, entry))
    for entry in entries:
        draft.move(f"undo {_name(draft, entry)}", step_no=entry.step_no, **waits_for_undos(draft))
        draft.send(SendRequest(entry.step_no, "undo", draft.record.fence, argument=selected[entry.step_no]))


def _sent(draft: Draft, entry: StepRecord) -> StepRecord:
    policy, now = draft.step_policy(entry.step_no), draft.moment.now
    return replace(
        entry,
        undo_state="undoing",
        undo_error=None,
        undo_attempt=draft.record.attempt,
        undo_sent_at=now,
        undo_complete_by=now + policy.timeout,
        undo_wake_at=retry_at(policy, 1, draft.moment.draw, now, now),
        undo_retries=0,
    )


def waits_for_undos(draft: Draft) -> dict[str, Any]:
    """What the order's own row says of the undos it waits for: latest deadline, earliest re-send."""
    out = draft.record.under_way
    return {
        "step": out[0].step_no,
        "sent_at": out[0].sent_at,
        "complete_by": max(each.complete_by for each in out),
        "wake_at": min((each.wake_at for each in out if each.wake_at is not None), default=None),
        "retries": out[0].retries,
    }


def undo_retry_due(draft: Draft) -> None:
    """Sends unanswered requests again, each in its own time, and sets the time of the one after it."""
    now = draft.moment.now
    for entry in draft.record.undos_out:
        if entry.undo_wake_at is None or entry.undo_wake_at > now or entry.undo_complete_by is None:
            continue
        if entry.undo_complete_by <= now:
            _goes_on(draft, replace(entry, undo_wake_at=None), "deadline passed before the retry")
        else:
            _send_again(draft, entry)


def _send_again(draft: Draft, entry: StepRecord) -> None:
    retries, withheld = entry.undo_retries + 1, draft.moment.withheld
    selected = None if withheld else argument_of(draft, entry.step_no)
    policy, moment, sent_at = draft.step_policy(entry.step_no), draft.moment, entry.undo_sent_at
    wake_at = sent_at and retry_at(policy, retries + 1, moment.draw, sent_at, moment.now)
    why = f"retry {retries} not sent: {withheld}" if withheld else f"request sent again, retry {retries}"
    _goes_on(draft, replace(entry, undo_retries=retries, undo_wake_at=wake_at), why)
    if not withheld:
        draft.send(SendRequest(entry.step_no, "undo", draft.record.fence, retries, selected))


def _goes_on(draft: Draft, entry: StepRecord, why: str, **changes: Any) -> None:
    """One entry changes; the attempt waits on, for this one or for others."""
    draft.set_step(entry)
    draft.move(why, step_no=entry.step_no, **waits_for_undos(draft), **changes)


# Answers


def undo_answered(draft: Draft, reply: StepReply) -> None:
    """Folds an answer that is waited for into its entry."""
    entry = next(entry for entry in draft.record.undos_out if entry.step_no == reply.step_no)
    name = _name(draft, entry)
    if not (isinstance(reply, StepFailed) and reply.kind == "refused"):
        entry = _called(entry, reply.calls)
    if isinstance(reply, StepSucceeded):
        undone = _answered(replace(entry, undo_state="undone", undo_error=None))
        _settled(draft, undone, f"{name} undone")
    elif reply.kind == "permanent":
        failed = _answered(replace(entry, undo_state="undo_failed", undo_error=reply.error))
        _settled(draft, failed, f"undo of {name} failed: {reply.error}")
    elif reply.kind == "refused":
        _refused(draft, entry, reply)
    else:
        why = f"undo of {name} failed, may work later: {reply.error}"
        _out_of_time(draft, replace(entry, undo_error=reply.error), why)


def _answered(entry: StepRecord) -> StepRecord:
    return replace(entry, undo_complete_by=None, undo_wake_at=None)


def _settled(draft: Draft, entry: StepRecord, why: str) -> None:
    """An entry is undone, or failed for good: the attempt waits for the others, or goes on."""
    draft.set_step(entry)
    if draft.record.undos_out:
        _goes_on(draft, entry, why, unbegun_count=0)
    elif entry.undo_state == "undo_failed" and not can_go_on(next_wave(draft.record, draft.workflow)):
        compensation_failed(draft, why)
    else:
        draft.move(why, step_no=entry.step_no, unbegun_count=0)
        undo_next(draft)


def _refused(draft: Draft, entry: StepRecord, reply: StepFailed) -> None:
    """Nothing was called. No time left takes the expired road, and so does an unknown operation while others are under
    way; alone, it holds the order.
    """
    if reply.reason == "no_time" or len(draft.record.undos_out) > 1:
        said = "no time left" if reply.reason == "no_time" else reply.error
        _out_of_time(draft, entry, f"refused by the agent: {said}")
        return
    step = draft.workflow.step(entry.step_no)
    draft.set_step(_answered(replace(entry, undo_error=reply.error)))
    hold(draft, f"operation:{step.agent}/{step.undo}")


def _out_of_time(draft: Draft, entry: StepRecord, why: str) -> None:
    """The request is over now; the supervisor takes the same road as for a deadline, once all others are, too."""
    _goes_on(draft, replace(entry, undo_complete_by=draft.moment.now, undo_wake_at=None), why)


def undo_reopened(draft: Draft, entry: StepRecord, why: str) -> None:
    """A late success: what was sent to undo ``entry`` may have come before it. The others under way go on."""
    was_out = any(out.step_no == entry.step_no for out in draft.record.undos_out)
    draft.set_step(entry)
    if not draft.record.undos_out and entry.undo_state is None:
        draft.move(f"{why}; its undo runs again", step_no=entry.step_no, **draft.unlocked())
    elif was_out:
        _goes_on(draft, entry, f"{why}; its undo runs again")
    else:
        draft.move(why, step_no=entry.step_no)


# Deadlines


def undos_expired(draft: Draft, expired: Expired) -> None:
    """The supervisor's decision once the last deadline of an attempt passed: what failed is tried again, or given up.
    An entry that nobody began counts no try; if that is all of them, nothing is counted.
    """
    record = draft.record
    if record.locked_by is None or record.complete_by is None or record.complete_by > draft.moment.now:
        return
    out = [_called(entry, expired.calls_of(entry.step_no)) for entry in record.undos_out]
    if not out:
        raise LookupError(f"{record.key}: it is locked without an undo under way")
    for entry in out:
        draft.set_step(entry)
    failed = [entry for entry in out if expired.has_begun(entry.step_no) or entry.undo_error is not None]
    if not failed:
        reopen_unbegun(draft, f"no agent began the undo of {_names(draft, out)}")
        return
    tried = [_tried(draft, entry) for entry in failed]
    for entry in tried:
        draft.set_step(entry)
    for entry in tried[:-1]:
        draft.move(_said(draft, entry), step_no=entry.step_no)
    if can_go_on(next_wave(draft.record, draft.workflow)):
        _reopen(draft, tried)
    else:
        compensation_failed(draft, _said(draft, tried[-1]))


def _called(entry: StepRecord, calls: int) -> StepRecord:
    return replace(entry, undo_calls=max(entry.undo_calls, calls))


def _tried(draft: Draft, entry: StepRecord) -> StepRecord:
    tries = entry.undo_tries + 1
    error = entry.undo_error or "no answer before the deadline"
    given_up = _wait(draft, entry.step_no, tries) is None or budget.is_undo_spent(draft, entry)
    return replace(
        entry, undo_state="undo_failed" if given_up else "undoing", undo_tries=tries, undo_error=error
    )


def _wait(draft: Draft, step_no: int, tries: int) -> timedelta | None:
    return next_attempt(draft.step_policy(step_no), tries, draft.moment.draw)


def _said(draft: Draft, entry: StepRecord) -> str:
    if entry.undo_state == "undo_failed":
        if _wait(draft, entry.step_no, entry.undo_tries) is not None:
            return f"undo of {_name(draft, entry)} failed ({entry.undo_error}), and {budget.UNDO_SPENT}"
        return f"undo of {_name(draft, entry)} failed {entry.undo_tries} times: {entry.undo_error}"
    return f"undo of {_name(draft, entry)} failed ({entry.undo_error}); it is tried again"


def _reopen(draft: Draft, tried: Sequence[StepRecord]) -> None:
    """After the longest wait of those that are tried again: none is called sooner than its policy says."""
    again = [entry for entry in tried if entry.undo_state == "undoing"]
    waits = [_wait(draft, entry.step_no, entry.undo_tries) for entry in again]
    wait = max((wait for wait in waits if wait is not None), default=timedelta(0))
    last = tried[-1]
    draft.move(
        _said(draft, last),
        step_no=last.step_no,
        unbegun_count=0,
        not_before=draft.moment.now + wait,
        **draft.unlocked(),
    )


def _name(draft: Draft, entry: StepRecord) -> str:
    return draft.workflow.step(entry.step_no).name


def _names(draft: Draft, entries: Sequence[StepRecord]) -> str:
    named = [_name(draft, entry) for entry in entries[:_MOST_NAMES]]
    more = len(entries) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")
