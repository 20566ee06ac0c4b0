"""What an author writes: workflows, their steps, and what they wait for."""

from triumvir.workflow.model import OnError, Stage, Step, Workflow
from triumvir.workflow.undo_order import UndoOrder
from triumvir.workflow.waiting import Wait

__all__ = ["OnError", "Stage", "Step", "UndoOrder", "Wait", "Workflow"]
