"""The retry budget: how many calls a request may make, so that no order is called for without end.

The unit is one call beyond the first of a step; the first is always granted, so that no step starves another. What a
request may make is reserved when it is dispatched (``StepRecord.calls_upto``, which its re-sends share), and what it
made is charged by its answer or at its deadline (``StepRecord.calls``): what it did not use is there again. An undo has
a limit of its own, of which its way forward uses nothing.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from triumvir.lifecycle.draft import Draft
from triumvir.lifecycle.record import OrderRecord, StepRecord

UNDO_SPENT: Final = "the retry budget of this undo is spent"


def spent(record: OrderRecord) -> int:
    """Calls beyond the first of each step that are known of."""
    return sum(max(0, step.calls - 1) for step in record.steps)


def granted(draft: Draft) -> int:
    """The order's budget; the one that its workflow would get now if none was opened yet."""
    if draft.record.budget is not None:
        return draft.record.budget
    return draft.policy.retry_budget_of(draft.workflow.name)


def renewed(draft: Draft) -> int:
    """The budget after an operator let the order go on: as much as at first beyond what is spent, whatever was left,
    and the first call of the step that failed.
    """
    step = draft.record.step_record(draft.record.step or 0)
    again = step is not None and step.calls > 0 and step.state != "completed"
    return spent(draft.record) + draft.policy.retry_budget_of(draft.workflow.name) + again


def reserved(draft: Draft, step: StepRecord) -> StepRecord:
    """The step with what its next request may make of its calls: no more than there are, if the budget is spent."""
    if step.asking:
        return replace(step, calls_upto=step.calls)
    most = draft.policy.calls_per_request if draft.workflow.step(step.step_no).recoverable else 1
    first = 0 if step.calls else 1
    left = max(0, granted(draft) - spent(draft.record))
    return replace(step, calls_upto=step.calls + first + min(most - first, left))


def undo_reserved(draft: Draft, step: StepRecord) -> StepRecord:
    """The same for its undo, whose limit is opened with the first request, and anew when it runs anew."""
    limit = step.undo_limit
    if limit is None:
        limit = step.undo_calls + 1 + draft.step_policy(step.step_no).undo_budget
    left = max(0, limit - step.undo_calls)
    return replace(
        step, undo_limit=limit, calls_upto=step.undo_calls + min(draft.policy.calls_per_request, left)
    )


def spent_words(draft: Draft, step: StepRecord) -> str | None:
    """Why a step cannot be tried again, None if it can."""
    if reserved(draft, step).allowed("do"):
        return None
    return f"the retry budget of the order is spent ({granted(draft)} calls beyond the first of each step)"


def is_undo_spent(draft: Draft, step: StepRecord) -> bool:
    """Whether an undo cannot be tried again."""
    return not undo_reserved(draft, step).allowed("undo")


def charged(draft: Draft, step: StepRecord) -> StepRecord:
    """A step whose request nobody waits for any more, with all the calls that it may have made."""
    outstanding = step.allowed("do")
    return replace(
        step, calls=step.calls + (draft.policy.calls_per_request if outstanding is None else outstanding)
    )


def undo_charged(draft: Draft, step: StepRecord) -> StepRecord:
    """The same for its undo; the answer of one that was answered has charged them."""
    if step.undo_error is not None:
        return step
    outstanding = step.allowed("undo")
    most = draft.policy.calls_per_request if outstanding is None else outstanding
    return replace(step, undo_calls=step.undo_calls + most)
