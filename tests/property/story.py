"""What happened to an order, to be read by people."""

from __future__ import annotations

from triumvir.contracts.messages import StepFailed, StepProgressed
from triumvir.lifecycle import Decision, Event, Replied


def sentence(no: int, event: Event, decision: Decision) -> str:
    """An event, and what was decided."""
    what = repr(event)
    if isinstance(event, Replied):
        reply = event.reply
        outcome = "succeeded"
        if isinstance(reply, StepFailed):
            outcome = reply.reason or reply.kind
        elif isinstance(reply, StepProgressed):
            outcome = f"progressed: {reply.text}"
        what = f"{reply.direction} {reply.step} {outcome} (fence {reply.fence})"
    why = "; ".join(row.why for row in decision.log) or "nothing"
    return f"order {no}: {what} -> {why} [{decision.record.state}, fence {decision.record.fence}]"
