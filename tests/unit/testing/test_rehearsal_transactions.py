"""``ctx.transaction()`` in a rehearsal: on what the author gives it, once, with the success."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.testing.troupe import Receipt, Sale
from triumvir import Agent, Context, Step, Workflow
from triumvir.errors import ConfigurationError
from triumvir.testing import Rehearsal


class Books:
    """A table, and transactions on it."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.rolled_back = 0

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[list[str]]:
        written: list[str] = []
        try:
            yield written
        except BaseException:
            self.rolled_back += 1
            raise
        self.rows += written


def booking() -> tuple[Workflow, Agent]:
    agent = Agent("records")

    @agent.operation("note")
    async def note(ctx: Context, sale: Sale) -> Receipt:
        async with ctx.transaction() as rows:
            rows.append(ctx.idempotency_key)  # type: ignore[attr-defined]
        return Receipt(receipt="noted")

    return Workflow("w", 1, [Step("note", agent="records", operation="note")]), agent


@pytest.mark.parametrize(("at", "rolled_back"), [("before_call", 0), ("after_call", 1), ("before_reply", 0)])
def test_a_transaction_commits_once_with_the_success_wherever_the_process_dies(
    at: Any, rolled_back: int
) -> None:
    books, (workflow, agent) = Books(), booking()
    rehearsal = Rehearsal(workflow, agents=[agent], connect=books.transaction)
    rehearsal.die("note", at=at)
    outcome = rehearsal.run_blocking({"pence": 1})
    assert outcome.state == "processed"
    assert (len(books.rows), books.rolled_back) == (1, rolled_back)


def test_a_transaction_without_a_connection_names_the_fix() -> None:
    workflow, agent = booking()
    with pytest.raises(ConfigurationError, match=r"connect="):
        Rehearsal(workflow, agents=[agent]).run_blocking({"pence": 1})


def test_a_transaction_entered_twice_fails_for_good_as_it_does_when_served() -> None:
    agent, books = Agent("records"), Books()

    @agent.operation("note")
    async def note(ctx: Context, sale: Sale) -> Receipt:
        async with ctx.transaction(), ctx.transaction():
            return Receipt(receipt="noted")

    workflow = Workflow("w", 1, [Step("note", agent="records", operation="note")])
    outcome = Rehearsal(workflow, agents=[agent], connect=books.transaction).run_blocking({"pence": 1})
    assert (outcome.state, len(outcome.calls), books.rows) == ("error", 1, [])
