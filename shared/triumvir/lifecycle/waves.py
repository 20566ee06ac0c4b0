"""In which order effects are taken back: what is left, and what of it may be undone at the same time.

A wave is what has the lowest rank of all that is left. Where steps are undone from the last to the first, every step
is a wave of its own; by rank, steps of equal rank are one; in parallel, all are.
"""

from __future__ import annotations

from triumvir.lifecycle.record import OrderRecord, StepRecord
from triumvir.workflow import Workflow


def left_to_undo(record: OrderRecord, workflow: Workflow) -> list[StepRecord]:
    """The entries that are to be undone and are not, the latest step first."""
    return [step for step in reversed(record.steps) if needs_undo(workflow, step)]


def needs_undo(workflow: Workflow, step: StepRecord) -> bool:
    """A step is undone unless nothing happened, nothing is declared to undo it, or it is undone already."""
    declared = workflow.step(step.step_no).undo is not None
    return declared and step.effect != "none" and step.undo_state != "undone"


def next_wave(record: OrderRecord, workflow: Workflow) -> list[StepRecord]:
    """What is undone next, the latest step first; nothing if nothing is left. Later waves wait for all of it: also
    for an undo that failed for good, which an operator has to see to first.
    """
    left = left_to_undo(record, workflow)
    first = min((workflow.undo_rank(step.step_no) for step in left), default=0)
    return [step for step in left if workflow.undo_rank(step.step_no) == first]


def can_go_on(wave: list[StepRecord]) -> list[StepRecord]:
    """Of a wave, the entries that did not fail for good."""
    return [step for step in wave if step.undo_state != "undo_failed"]
