"""What an author writes: workflows and their steps."""

from triumvir.workflow.model import OnError, Step, Workflow

__all__ = ["OnError", "Step", "Workflow"]
