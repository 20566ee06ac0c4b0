"""Batches that raised: what they would have sent is kept until somebody looked whether it was committed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from triumvir.lifecycle import Claimed, Moment, OrderRecord, Policy, Revived, decide
from triumvir.runtime.applied import Applied
from triumvir.workflow import Step, Workflow
from triumvir_scheduler import unheard
from triumvir_scheduler.unheard import Unheard

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LOCK = UUID(int=7)
WORKFLOW = Workflow("w", 1, [Step("a", agent="a", operation="a")])


def claimed(no: int, now: datetime = NOW) -> Applied:
    """A batch that dispatches one order."""
    record = OrderRecord(no, "shop", f"o{no}", "w", 1, history=1)
    return Applied([[(record, decide(record, WORKFLOW, Claimed(), Moment(now, LOCK), Policy()))]])


def test_a_batch_that_raised_leaves_what_it_would_have_sent() -> None:
    heard = Unheard()
    heard.note([claimed(2), claimed(1)])
    first, second = heard.take()
    assert (first.no, second.no, first.at, first.lock, first.sent_at) == (1, 2, NOW, LOCK, NOW)
    assert heard.take() == []


def test_a_batch_that_sends_nothing_leaves_nothing() -> None:
    record = OrderRecord(1, "shop", "o1", "w", 1)
    heard = Unheard()
    heard.note([Applied([[(record, decide(record, WORKFLOW, Revived(), Moment(NOW, LOCK), Policy()))]])])
    assert heard.take() == []


def test_what_could_not_be_looked_at_is_kept_but_not_instead_of_what_came_later() -> None:
    heard = Unheard()
    heard.note([claimed(1), claimed(2)])
    moves = heard.take()
    later = NOW + timedelta(seconds=1)
    heard.note([claimed(2, later)])
    heard.give_back(moves)
    assert [(move.no, move.at) for move in heard.take()] == [(1, NOW), (2, later)]


def test_of_too_many_the_oldest_are_left_to_the_outbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unheard, "MOST", 2)
    heard = Unheard()
    heard.note([claimed(no) for no in (3, 1, 2)])
    assert [move.no for move in heard.take()] == [1, 2]
