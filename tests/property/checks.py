"""What must hold for every decision, and for every order that came to rest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from tests.property.rules import course
from triumvir.contracts.account import of_text
from triumvir.contracts.messages import AgentMessage, StepProgressed, StepSucceeded
from triumvir.lifecycle import (
    END,
    LIVE,
    PAUSED,
    RESTING,
    STATUS_OF_STATE,
    Aged,
    Broken,
    Decision,
    Event,
    Expired,
    LogRow,
    OperatorAsked,
    OrderRecord,
    Replied,
    Revived,
    SendAlert,
    SendRequest,
    SendStatus,
    StepRecord,
    is_legal,
    waiting_step,
)
from triumvir.lifecycle.progress import Progress, progress_of
from triumvir.workflow import Workflow

_RANK: Final = {"none": 0, "unknown": 1, "certain": 2}


def check_decision(before: OrderRecord, decision: Decision, workflow: Workflow) -> None:
    """One decision: its log, its row, its steps, its lock and what it sends."""
    after = decision.record
    _check_log(before, decision)
    check_row(after)
    _check_lock(before, after)
    for step in after.steps:
        _check_step(before.step_record(step.step_no), step)
    _check_arrival(before, decision)
    for send in decision.sends:
        if isinstance(send, SendRequest):
            _check_request(after, send, workflow)


def _check_log(before: OrderRecord, decision: Decision) -> None:
    after, log = decision.record, decision.log
    if not log:
        assert after == before, "a change without a log row"
        assert not decision.sends, "a message without a log row"
        return
    assert [row.n for row in log] == list(range(before.history + 1, after.history + 1))
    assert [log[0].before, log[-1].after] == [before.state, after.state]
    assert all(one.after == two.before for one, two in pairwise(log)), "the log has a gap"
    arrows = [(row.before, row.after) for row in log if row.before != row.after]
    assert all(is_legal(*arrow) for arrow in arrows), arrows
    assert len(arrows) <= 1, f"one decision, one arrow: {arrows}"
    _check_account(after, log)
    numbers = [row.sequence for row in log if row.sequence is not None]
    assert numbers == list(range(before.sequence + 1, after.sequence + 1))
    assert all((row.status is None) == (row.sequence is None) for row in log)
    told = [send.history for send in decision.sends if isinstance(send, SendStatus)]
    assert told == [row.n for row in log if row.status is not None]


def _check_account(after: OrderRecord, log: Sequence[LogRow]) -> None:
    """An order that cannot be undone says so of each step, and no other move does."""
    rested = [row for row in log if row.after == "compensation_failed" != row.before]
    assert [row for row in log if row.account is not None] == rested
    for row in rested:
        said = {step.step_no: step.outcome for step in of_text(row.account or "")}
        begun = [step for step in after.steps if step.state in ("running", "completed", "failed")]
        assert set(said) == {step.step_no for step in begun}
        for step in begun:
            assert (said[step.step_no] == "undone") == (step.undo_state == "undone")
            assert (said[step.step_no] == "failed") <= (step.undo_state == "undo_failed")
            assert (said[step.step_no] == "not_needed") == (step.effect == "none")


def check_row(record: OrderRecord) -> None:
    """What one row can show; the schema refuses the same."""
    locked = record.locked_by is not None
    assert locked == (record.complete_by is not None)
    assert record.state != "processing" or locked
    assert not locked or (record.state in ("processing", "compensating") and record.held_by is None)
    _check_under_way(record)
    assert record.wake_at is None or (locked and record.complete_by and record.wake_at <= record.complete_by)
    assert (record.ended_at is not None) == (record.state in END)
    assert record.held_by is None or record.state in LIVE
    assert not (record.state == "pending" and record.cancel_requested), "a cancel that nobody carries out"
    assert (record.paused_at is not None) == (record.paused_by is not None)
    assert record.paused_at is None or record.state not in END, "ended, and paused"
    if record.paused_at is not None and record.state in LIVE:
        assert locked or record.held_by == PAUSED, "paused, and nothing holds it"
    assert record.held_by != PAUSED or record.paused_at is not None, "held by a pause that is over"
    for step in record.steps:
        done_or_waited_for = step.effect == "certain" or step.calls == 0
        assert step.state != "completed" or (done_or_waited_for and step.result is not None)
        assert step.state not in ("waiting", "signalled") or not step.begun, "waited for and yet begun"
        assert step.state != "waiting" or _may_wait(record, step.step_no), "waits for nothing any more"
        assert step.undo_state is None or step.effect != "none"
        assert step.state != "skipped" or not step.begun, "skipped and yet begun"
        assert step.led_to is None or (step.state == "failed" and step.effect != "none" and not step.asking)
        assert step.state != "running" or (record.state == "processing" and record.step == step.step_no)


def _may_wait(record: OrderRecord, step_no: int) -> bool:
    """While it is held, or as the only thing that the order does: no request, no timer."""
    alone = record.step == step_no and record.wake_at is None and record.sent_at is None
    return record.state == "pending" or (record.state == "processing" and alone)


def _check_under_way(record: OrderRecord) -> None:
    """The order's own times are the latest deadline and the earliest re-send of what it waits for."""
    out = record.under_way
    at_work = record.locked_by is not None and waiting_step(record) is None
    assert at_work == bool(out), "locked without a request, or the other way round"
    if not out:
        return
    assert record.complete_by == max(each.complete_by for each in out)
    assert record.wake_at == min((each.wake_at for each in out if each.wake_at), default=None)
    assert record.step in [each.step_no for each in out]
    assert len({(each.step_no, each.direction) for each in out}) == len(out)
    for each in out:
        at_deadline = each.direction == "do" and each.wake_at == each.complete_by  # it leads to another step
        resent = each.wake_at is None or each.wake_at < each.complete_by
        assert resent or at_deadline, "a re-send beyond its own deadline"


def _check_lock(before: OrderRecord, after: OrderRecord) -> None:
    assert after.fence >= before.fence
    if after.locked_by != before.locked_by:
        assert after.fence > before.fence, "another attempt without a higher fence"
    if after.locked_by is not None and after.locked_by != before.locked_by:
        assert after.attempt == before.attempt + 1


def _check_step(before: StepRecord | None, after: StepRecord) -> None:
    if before is None:
        assert after.state == "running" or not after.begun, "a step record comes before its first request"
        return
    assert before.state != "skipped" or after == before, "a skipped step was decided on again"
    assert before.state != "completed" or after.state == "completed", "a completed step was run again"
    assert _RANK[after.effect] >= _RANK[before.effect], "doubt was forgotten"
    assert after.calls >= before.calls
    assert after.undo_generation >= before.undo_generation
    if before.undo_state == "undone" and after.undo_state != "undone":
        assert after.undo_generation > before.undo_generation, "undone again under a used key"


def _check_arrival(before: OrderRecord, decision: Decision) -> None:
    state = decision.record.state
    if state == before.state or state in LIVE - {"compensating"}:
        return
    arrival = next(row for row in decision.log if row.after == state and row.before != state)
    assert arrival.status == STATUS_OF_STATE[state], "the client is not told"
    if state in RESTING:
        assert SendAlert in map(type, decision.sends), "rests without an alert"


def _check_request(record: OrderRecord, send: SendRequest, workflow: Workflow) -> None:
    assert send.fence == record.fence
    assert record.locked_by is not None
    assert send.retry or record.paused_at is None, "a step of a paused order was begun"
    assert record.request_under_way(send.step_no, send.direction) is not None
    step = record.step_record(send.step_no)
    assert step is not None
    if send.direction == "do":
        assert (record.state, step.state, step.attempt) == ("processing", "running", record.attempt)
        done = ("completed", "skipped")
        earlier = [one for one in record.steps if one.step_no < send.step_no]
        assert all(one.state in done or one.led_to for one in earlier)
        assert send.step_no in course(record, workflow), "a step that is not on the way was sent"
        assert step.asking <= (step.effect != "none"), "asked for what was never begun"
        return
    assert (record.state, step.undo_state) == ("compensating", "undoing")
    assert step.effect != "none"
    if send.retry:
        return  # it was out already when a success of a later step became known
    for other in record.steps:
        undoable = workflow.step(other.step_no).undo is not None and other.effect != "none"
        before = comes_before(workflow, other.step_no, send.step_no)
        assert not before or not undoable or other.undo_state == "undone", "out of order"


def comes_before(workflow: Workflow, one: int, other: int) -> bool:
    """Whether a step must be undone before another one."""
    if workflow.undo_order == "reverse":
        return one > other
    ranks = [workflow.step(step_no).undo_rank for step_no in (one, other)]
    return workflow.undo_order == "by-rank" and None not in ranks and ranks[0] < ranks[1]  # type: ignore[operator]


def check_event(
    before: OrderRecord, event: Event, after: OrderRecord, now: datetime, workflow: Workflow
) -> None:
    """What an event may not do, whatever the order: dead attempts move nothing, the unbegun burns nothing, and while
    an undo that may come next has not failed for good, undoing is not given up.
    """
    if after.state == "compensation_failed" != before.state and not isinstance(event, Broken):
        for step in after.steps:
            if workflow.step(step.step_no).undo is None or step.effect == "none":
                continue
            waits = any(
                comes_before(workflow, other.step_no, step.step_no) and other.undo_state == "undo_failed"
                for other in after.steps
            )
            assert step.undo_state in ("undone", "undo_failed") or waits, "given up before its undo failed"
    if isinstance(event, Replied) and isinstance(event.reply, StepProgressed):
        _check_progress(before, event.reply, after, now)
    elif isinstance(event, Replied) and not _is_awaited(before, event.reply, now):
        moved = replace(after, history=before.history)
        if isinstance(event.reply, StepSucceeded) and event.reply.direction == "do":
            assert after.state in (before.state, "compensating")
            assert after.failure_count in (before.failure_count, 0)
        else:
            assert moved == before, "a late answer moved the order"
    if isinstance(event, Aged):
        assert replace(after, history=before.history) == before, "an order was moved because it waits"
        assert after == before or before.locked_by is None, "told of one that somebody runs"
    if isinstance(event, Revived) and after != before:
        _check_revived(before, after, now)
    if isinstance(event, Expired) and after != before:
        _check_counted(before, event, after)
    if isinstance(event, OperatorAsked) and event.action in ("pause", "unpause"):
        if waiting_step(before) is None or after.state == "processing":
            _check_pause(before, after)
        else:
            _check_paused_wait(before, after, now)


def _check_progress(before: OrderRecord, report: StepProgressed, after: OrderRecord, now: datetime) -> None:
    """Kept if it is waited for and news, and told; nothing else of the order is touched."""
    step = before.step_record(report.step_no)
    if not _is_awaited(before, report, now) or step is None:
        assert after == before, "somebody listens to a report that nobody waits for"
        return
    changed = after.step_record(report.step_no)
    assert changed is not None
    told = replace(after, history=before.history, sequence=before.sequence)
    assert told.with_step(replace(changed, progress=step.progress)) == before, "a report moved the order"
    last, kept = progress_of(step), progress_of(changed)
    if kept != last:
        assert kept is not None
        assert (kept.attempt, kept.text) == (before.attempt, report.text)
        assert last is None or _place(kept) > _place(last), "an older report is kept"


def _place(progress: Progress) -> tuple[int, int, int]:
    return progress.attempt, progress.calls, progress.count


def _check_revived(before: OrderRecord, after: OrderRecord, now: datetime) -> None:
    """Retries are brought forward, and nothing else happens."""
    assert _without_wakes(after) == _without_wakes(before), "revived more than retries"
    moved = [
        (was, is_now) for was, is_now in zip(_wakes(before), _wakes(after), strict=True) if was != is_now
    ]
    assert moved
    for was, is_now in moved:
        assert was is not None
        assert is_now is not None
        assert now < is_now < was, "not brought forward"


def _without_wakes(record: OrderRecord) -> OrderRecord:
    steps = tuple(replace(step, undo_wake_at=None) for step in record.steps)
    return replace(record, wake_at=None, history=0, steps=steps)


def _wakes(record: OrderRecord) -> list[datetime | None]:
    return [record.wake_at, *(step.undo_wake_at for step in record.steps)]


def _check_paused_wait(before: OrderRecord, after: OrderRecord, now: datetime) -> None:
    """Nothing is under way: it stands still at once, and keeps the time it has left."""
    step, until = waiting_step(before), before.complete_by
    assert step is not None
    assert until is not None
    assert (after.state, after.locked_by, after.held_by) == ("pending", None, PAUSED)
    assert after.step_record(step.step_no) == replace(step, wait_left=until - now), "its time is not kept"
    assert (after.failure_count, after.unbegun_count) == (before.failure_count, before.unbegun_count)


def _check_counted(before: OrderRecord, event: Expired, after: OrderRecord) -> None:
    if before.direction == "do":
        entry = before.step_record(before.step or 0)
        assert entry is not None
        counted = after.failure_count > before.failure_count
        assert not counted or event.begun or entry.state == "failed", (
            "an attempt that nobody began was counted"
        )
    for entry in before.steps:
        tried = after.step_record(entry.step_no)
        assert tried is not None
        if tried.undo_tries > entry.undo_tries:
            was_out = any(out.step_no == entry.step_no for out in before.undos_out)
            assert was_out, "a try of an undo that was not under way"
            begun = event.has_begun(entry.step_no) or entry.undo_error is not None
            assert begun, "an undo that nobody began was counted"
        assert (entry.undo_state == "undone") == (tried.undo_state == "undone"), "a deadline undoes nothing"


def _check_pause(before: OrderRecord, after: OrderRecord) -> None:
    """It burns nothing, and what is under way keeps its lock, its deadline and its timers."""
    assert replace(after, steps=()) == replace(
        before,
        steps=(),
        fence=after.fence,
        history=after.history,
        sequence=after.sequence,
        told_held=after.told_held,
        held_by=after.held_by,
        held_at=after.held_at,
        not_before=after.not_before,
        paused_at=after.paused_at,
        paused_by=after.paused_by,
    ), "a pause changed more than it may"
    assert after.steps == before.steps
    assert before.locked_by is None or after.fence == before.fence


def _is_awaited(record: OrderRecord, reply: AgentMessage, now: datetime) -> bool:
    out = record.request_under_way(reply.step_no, reply.direction)
    return (
        out is not None
        and now < out.complete_by
        and (record.locked_by, record.fence) == (reply.lock, reply.fence)
    )


def check_repeated(record: OrderRecord, again: Decision) -> None:
    """The same event once more: at most history."""
    assert replace(again.record, history=record.history) == record
    assert not again.sends


def check_history(record: OrderRecord, log: list[LogRow]) -> None:
    """The log alone gives state, numbers and how often each step was completed."""
    assert [row.n for row in log] == list(range(1, record.history + 1)), [(row.n, row.why) for row in log]
    assert log[0].before == "pending"
    assert log[-1].after == record.state
    statuses = [row for row in log if row.status is not None]
    assert [row.sequence for row in statuses] == list(range(1, record.sequence + 1))
    arrivals = [row.status for row in log if row.before != row.after]
    if record.state in END | RESTING:
        assert arrivals[-1] == STATUS_OF_STATE[record.state]
