"""Which steps an order still has before it, and where it goes when the time of one is over.

Orders only ever go down the list of steps: an alternative step stands behind the step that leads to it, and the main
line goes on behind the alternative. What lies between is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from triumvir.lifecycle.draft import Draft
from triumvir.lifecycle.record import OrderRecord, StepRecord
from triumvir.workflow import Workflow


def ahead(record: OrderRecord, workflow: Workflow) -> Iterator[int]:
    """The ordinals of the steps that are to be run, in order; a step that a time-out leads to is the first of them."""
    led_to = max((step.led_to or 0 for step in record.steps), default=0)
    done = {step.step_no for step in record.steps if step.state in ("completed", "skipped")}
    for step_no in range(max(1, led_to), len(workflow.steps) + 1):
        if step_no not in done and (workflow.step(step_no).main_line or step_no == led_to):
            yield step_no


def timeout_target(draft: Draft, step_no: int) -> int | None:
    """The ordinal of the step that a time-out of this one leads to; None if it leads nowhere.

    A policy file may name a step that this workflow does not have, or has earlier: then its line is not for it.
    """
    if draft.record.direction == "undo":
        return None
    return later_step(draft.workflow, step_no, draft.step_policy(step_no).on_timeout)


def later_step(workflow: Workflow, step_no: int, name: str | None) -> int | None:
    """The ordinal of the step of that name, if it comes after another one."""
    later = range(step_no + 1, len(workflow.steps) + 1)
    return next((number for number in later if workflow.step(number).name == name), None)


def lead_on(draft: Draft, step: StepRecord, target: int) -> None:
    """The step whose time is over is left in doubt; the next claim runs the other one, under its own policy."""
    name, other = draft.workflow.step(step.step_no).name, draft.workflow.step(target).name
    effect = "unknown" if step.effect == "none" else step.effect
    draft.set_step(replace(step, effect=effect, led_to=target))
    draft.move(
        f"{name}: {step.error}; {other} is run instead",
        to="pending",
        step_no=step.step_no,
        step=target,  # what is left behind is not an operator's to skip or to retry
        unbegun_count=0,
        not_before=None,
        **draft.unlocked(),
    )
    if effect == "certain":  # its success came between the deadline and this timer: both steps took effect
        draft.alert("late-success")


def ask(draft: Draft, step: StepRecord) -> None:
    """The next claim asks the step's agents what came of it; nothing is called for that."""
    name = draft.workflow.step(step.step_no).name
    draft.set_step(replace(step, asking=True))
    draft.move(
        f"{name}: {step.error}; its agents are asked what came of it",
        to="pending",
        step_no=step.step_no,
        unbegun_count=0,
        not_before=None,
        **draft.unlocked(),
    )
