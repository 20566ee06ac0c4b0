"""What an agent's reply means: the awaited one moves the order, any other is late and moves nothing,
but a success that comes late is never forgotten.
"""

from __future__ import annotations

from msgspec.structs import replace

from triumvir.contracts.messages import (
    AgentMessage,
    Effect,
    StepFailed,
    StepProgressed,
    StepReply,
    StepSucceeded,
)
from triumvir.lifecycle import budget
from triumvir.lifecycle.course import ahead
from triumvir.lifecycle.dispatch import hold, run_next_step
from triumvir.lifecycle.draft import Draft
from triumvir.lifecycle.failure import begin_compensation, cancel_now, give_up
from triumvir.lifecycle.progress import progressed
from triumvir.lifecycle.record import OrderRecord, StepRecord
from triumvir.lifecycle.undoing import undo_answered, undo_reopened


def replied(draft: Draft, reply: AgentMessage) -> None:
    """Folds one reply into the order."""
    if (reply.client, reply.order_id) != (draft.record.client, draft.record.order_id):
        # A database restored to an earlier time has given another order's number to this one.
        draft.late = True
    elif isinstance(reply, StepProgressed):
        if _is_awaited(draft, reply):
            progressed(draft, reply)
    elif not _is_awaited(draft, reply):
        _late(draft, reply)
    elif reply.direction == "undo":
        undo_answered(draft, reply)
    elif isinstance(reply, StepSucceeded):
        _succeeded(draft, reply)
    elif reply.kind == "refused":
        _refused(draft, reply)
    elif reply.kind == "permanent":
        _failed_for_good(draft, reply)
    else:
        _ends_attempt(draft, reply)


def _is_awaited(draft: Draft, reply: AgentMessage) -> bool:
    record = draft.record
    if (record.locked_by, record.fence) != (reply.lock, reply.fence):
        return False
    request = record.request_under_way(reply.step_no, reply.direction)
    return request is not None and request.complete_by > draft.moment.now


def _succeeded(draft: Draft, reply: StepSucceeded) -> None:
    step = _step(draft.record, reply)
    draft.set_step(
        replace(
            step,
            state="completed",
            effect="certain",
            calls=max(step.calls, reply.calls),
            result=reply.result.text,
            error=None,
            asking=False,
        )
    )
    name = draft.workflow.step(reply.step_no).name
    last = next(ahead(draft.record, draft.workflow), None) is None
    draft.move(
        f"{name} completed",
        tell="step_completed" if draft.record.progress and not last else None,
        step_no=reply.step_no,
        failure_count=0,
        unbegun_count=0,
    )
    if draft.record.cancel_requested:
        begin_compensation(draft, "cancelled, as was asked for")
    else:
        run_next_step(draft)


def _refused(draft: Draft, reply: StepFailed) -> None:
    """Nothing was called. An unknown operation holds the order; no time left takes the expired road."""
    if reply.reason == "unknown_operation":
        step = draft.workflow.step(reply.step_no)
        draft.set_step(replace(_step(draft.record, reply), state="failed", error=reply.error))
        if draft.record.cancel_requested:
            cancel_now(draft, "cancelled, as was asked for")
            return
        hold(draft, f"operation:{step.agent}/{step.operation}")
    elif reply.reason == "no_time":
        draft.move("refused by the agent: no time left", complete_by=draft.moment.now, wake_at=None)
    else:
        _late(draft, reply)


def _failed_for_good(draft: Draft, reply: StepFailed) -> None:
    step = _failed_step(_step(draft.record, reply), reply)
    draft.set_step(replace(step, asking=False))
    give_up(draft, f"{draft.workflow.step(reply.step_no).name} failed: {reply.error}")


def _ends_attempt(draft: Draft, reply: StepFailed) -> None:
    """A transient failure ends the attempt now; the supervisor takes the same road as for a timeout."""
    draft.set_step(_failed_step(_step(draft.record, reply), reply))
    draft.move(
        f"{draft.workflow.step(reply.step_no).name} failed, may work later: {reply.error}",
        step_no=reply.step_no,
        complete_by=draft.moment.now,
        wake_at=None,
    )


def _failed_step(step: StepRecord, reply: StepFailed) -> StepRecord:
    return replace(
        step,
        state="failed",
        calls=max(step.calls, reply.calls),
        effect=_worse(step.effect, reply.effect),
        error=reply.error,
    )


def _worse(before: Effect, now: Effect) -> Effect:
    """Doubt stays: one request answered ``none`` says nothing of the requests before it."""
    rank: dict[Effect, int] = {"none": 0, "unknown": 1, "certain": 2}
    return before if rank[before] >= rank[now] else now


def _late(draft: Draft, reply: StepReply) -> None:
    """History and a metric, no change of state. An answer that was folded already is not even history."""
    draft.late = True
    step = draft.record.step_record(reply.step_no)
    if step is None:
        if isinstance(reply, StepSucceeded) and reply.direction == "do":
            _success_without_record(draft, reply)
        return
    if isinstance(reply, StepFailed):
        if not _is_doubled(draft.record, step, reply):
            said = reply.reason or reply.kind
            draft.move(f"late answer, changes nothing: {said}: {reply.error}", step_no=reply.step_no)
    elif reply.direction == "do" and step.effect != "certain":
        _late_success(draft, step, reply)


def _success_without_record(draft: Draft, reply: StepSucceeded) -> None:
    """The order was purged since. Whether the effect was known and undone cannot be told any more: people must look."""
    if draft.record.state in ("compensated", "cancelled", "closed"):
        named = draft.workflow.step(reply.step_no).name
        draft.move(f"late success of {named}, of which there is no record any more", step_no=reply.step_no)
        draft.alert("late-success")


def _is_doubled(record: OrderRecord, step: StepRecord, reply: StepReply) -> bool:
    if reply.fence != record.fence:
        return False
    if reply.direction == "undo":
        return not any(out.step_no == step.step_no and out.undo_error is None for out in record.undos_out)
    return reply.step_no != record.step or step.state != "running"


def _late_success(draft: Draft, step: StepRecord, reply: StepSucceeded) -> None:
    """The effect is certain now. An undo that may have come before it runs anew, under a new generation of
    its key, so that a remote service which dedupes by key does not answer from memory.
    """
    state = draft.record.state
    named = draft.workflow.step(reply.step_no)
    why = f"late success of {named.name}"
    # A request that is out is charged by its own answer, or at its deadline: its re-sends may make the same calls.
    made = step.calls if step.state == "running" else max(step.calls, reply.calls)
    known = replace(step, effect="certain", calls=made, result=reply.result.text)
    if step.undo_state is not None and state != "closed":
        if any(out.step_no == reply.step_no for out in draft.record.undos_out):
            known = budget.undo_charged(draft, known)
        kept = step.undo_state if step.undo_state == "undo_failed" else None
        known = replace(known, undo_state=kept, undo_generation=step.undo_generation + 1)
    if state == "compensating" and step.undo_state is not None:
        undo_reopened(draft, known, why)
    elif state in ("compensated", "cancelled") and named.undo is not None:
        draft.set_step(known)
        begin_compensation(draft, f"{why}; it is undone")
    else:
        draft.set_step(known)
        draft.move(why, step_no=reply.step_no)
    ended = state in ("compensated", "cancelled", "closed", "compensation_failed")
    if step.undo_state == "undone" or ended or (step.led_to is not None and state != "compensating"):
        draft.alert("late-success")


def _step(record: OrderRecord, reply: StepReply) -> StepRecord:
    step = record.step_record(reply.step_no)
    if step is None:
        raise LookupError(f"{record.key}: step {reply.step_no} was dispatched without its record")
    return step
