"""The heart: what an event means for an order. Pure; time, chance and surroundings come in as a Moment."""

from __future__ import annotations

from typing import Final, assert_never

from triumvir.lifecycle.ageing import aged
from triumvir.lifecycle.dispatch import claimed, retry_due
from triumvir.lifecycle.draft import Draft, Moment
from triumvir.lifecycle.events import (
    Aged,
    Broken,
    CancelRequested,
    Claimed,
    Event,
    Expired,
    OperatorAsked,
    Replied,
    RetryDue,
    Revived,
    Signalled,
)
from triumvir.lifecycle.failure import broken, cancel, expired
from triumvir.lifecycle.operators import operator_asked
from triumvir.lifecycle.pauses import stand_still
from triumvir.lifecycle.policy import Policy
from triumvir.lifecycle.record import Decision, OrderRecord
from triumvir.lifecycle.replies import replied
from triumvir.lifecycle.revival import revived, undos_revived
from triumvir.lifecycle.secrecy import hidden, hidden_event, shown
from triumvir.lifecycle.signals import signalled
from triumvir.lifecycle.undoing import undo_claimed, undo_retry_due, undos_expired
from triumvir.lifecycle.waiting import end_waits, wait_expired
from triumvir.workflow import Step, Workflow

_ANY: Final = Workflow("any", 1, [Step("any", agent="any", operation="any")])
"""Stands in where the definition is of no matter."""


def set_aside(record: OrderRecord, problem: str, moment: Moment, policy: Policy) -> Decision:
    """What is left to decide for an order that cannot be decided on: it rests, with an alert. Its data is treated as
    confidential, since nobody can say.
    """
    return shown(_decided(hidden(record), Broken(problem), _ANY, moment, policy))


def decide(record: OrderRecord, workflow: Workflow, event: Event, moment: Moment, policy: Policy) -> Decision:
    """The order after ``event``, the messages to send once that is committed, and the rows of its history.

    An event that no longer fits the order (stale, doubled, late) changes nothing.
    """
    if workflow.is_confidential:
        return shown(_decided(hidden(record), hidden_event(event), workflow, moment, policy))
    return _decided(record, event, workflow, moment, policy)


def _decided(
    record: OrderRecord, event: Event, workflow: Workflow, moment: Moment, policy: Policy
) -> Decision:
    draft = Draft(record, workflow, moment, policy)
    undoing = record.state == "compensating"
    match event:
        case Claimed():
            undo_claimed(draft) if undoing else claimed(draft)
        case Replied(reply):
            replied(draft, reply)
        case RetryDue():
            undo_retry_due(draft) if undoing else retry_due(draft)
        case Revived():
            undos_revived(draft, event) if undoing else revived(draft, event)
        case Expired(begun, calls):
            if undoing:
                undos_expired(draft, event)
            elif not wait_expired(draft):
                expired(draft, begun=begun, calls=calls, recorded=event.recorded)
        case CancelRequested(reason, by):
            cancel(draft, reason, by)
        case Signalled():
            signalled(draft, event)
        case OperatorAsked():
            operator_asked(draft, event)
        case Broken(problem):
            broken(draft, problem)
        case Aged(kind, seconds):
            aged(draft, kind, seconds)
        case _:
            assert_never(event)
    stand_still(draft)
    end_waits(draft)
    return draft.decision()
