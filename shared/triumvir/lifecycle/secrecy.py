"""What agents said of a confidential order stays in its step records: history, statuses and alerts say that there is
something, never what.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from msgspec.structs import replace

from triumvir.contracts.messages import StepFailed, StepProgressed
from triumvir.lifecycle.events import Broken, Event, Replied
from triumvir.lifecycle.record import Decision, OrderRecord, StepRecord
from triumvir.workflow import Workflow

HIDDEN: Final = "[confidential]"
_OWN_WORDS: Final = frozenset({"no answer before the deadline"})
"""What the lifecycle itself says, of no order in particular."""


class Secret(str):
    """Reads ``[confidential]`` wherever it is said, and knows what it stands for."""

    text: str

    def __new__(cls, text: str) -> Secret:
        secret = super().__new__(cls, HIDDEN)
        secret.text = text
        return secret


def quiet(workflow: Workflow, text: str) -> str:
    """A text that may hold data of an order, as it may be said."""
    return Secret(text) if workflow.is_confidential else text


def plain(text: str) -> str:
    """What a text stands for: for the step records alone."""
    return text.text if isinstance(text, Secret) else text


def hidden(record: OrderRecord) -> OrderRecord:
    """An order with every text of an agent as a secret."""
    return replace(record, steps=tuple(map(_hidden_step, record.steps)))


def shown(decision: Decision) -> Decision:
    """The step records get their texts back; what was said of them stays as it is."""
    record = decision.record
    return replace(decision, record=replace(record, steps=tuple(map(_shown_step, record.steps))))


def hidden_event(event: Event) -> Event:
    """An event with every text of an agent as a secret."""
    match event:
        case Replied(StepFailed() as reply):
            return dataclasses.replace(event, reply=reply.model_copy(update={"error": Secret(reply.error)}))
        case Replied(StepProgressed() as reply):
            return dataclasses.replace(event, reply=reply.model_copy(update={"text": Secret(reply.text)}))
        case Broken(problem):
            return dataclasses.replace(event, problem=Secret(problem))
        case _:
            return event


def _hidden_step(step: StepRecord) -> StepRecord:
    return replace(step, error=_hidden(step.error), undo_error=_hidden(step.undo_error))


def _hidden(text: str | None) -> str | None:
    return text if text is None or text in _OWN_WORDS else Secret(text)


def _shown_step(step: StepRecord) -> StepRecord:
    if not isinstance(step.error, Secret) and not isinstance(step.undo_error, Secret):
        return step
    return replace(step, error=_shown(step.error), undo_error=_shown(step.undo_error))


def _shown(text: str | None) -> str | None:
    return None if text is None else plain(text)
