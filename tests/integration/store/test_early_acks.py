"""The row of an early acknowledged request is the outbox of its reply: due until it is marked, for one at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.integration.store.requests import DONE, FAILED, AgentProcess, agent_process, request
from tests.integration.store.rows import live_instance
from triumvir.contracts.messages import StepCompensate, StepRequest
from triumvir.settings import Settings
from triumvir.store.statements import statement
from triumvir_agent.early import EarlyAcks
from triumvir_agent.requests import Known, UnderWay, key_of

AT_ONCE = EarlyAcks(over=timedelta(milliseconds=900), lease=timedelta())
"""Requests of these tests say that a second is left. Whoever finished has no time of its own for the reply."""
PATIENT = EarlyAcks(over=timedelta(milliseconds=900), lease=timedelta(hours=1))
NEVER = EarlyAcks(over=timedelta(milliseconds=1000), lease=timedelta())


@pytest.fixture
async def agent(settings: Settings, connection: asyncpg.Connection) -> AsyncIterator[AgentProcess]:
    process = agent_process(settings, await live_instance(connection), AT_ONCE)
    yield process
    await process.close()


@pytest.fixture
async def rival(settings: Settings, connection: asyncpg.Connection) -> AsyncIterator[AgentProcess]:
    process = agent_process(settings, await live_instance(connection), PATIENT)
    yield process
    await process.close()


async def _row(connection: asyncpg.Connection) -> Any:
    return await connection.fetchrow("select * from inbox where direction = 'do'")


async def _run(agent: AgentProcess, asked: StepRequest) -> None:
    await agent.begin_one(asked)
    assert await agent.finish(asked, DONE)


async def test_a_reply_is_due_from_the_commit_of_its_outcome_on(agent: AgentProcess) -> None:
    asked = request()
    await agent.begin_one(asked)
    assert await agent.inbox.take_due(10) == []
    await agent.finish(asked, DONE)
    (due,) = await agent.inbox.take_due(10)
    assert due.outcome == DONE
    assert due.calls == 1
    assert isinstance(due.request.lock, UUID)
    for name in ("order_no", "client", "order_id", "step", "step_no", "lock", "fence", "attempt"):
        assert getattr(due.request, name) == getattr(asked, name), name


@pytest.mark.parametrize("outcome", [DONE, FAILED])
async def test_the_reply_of_an_undo_is_told_as_one(agent: AgentProcess, outcome: Any) -> None:
    asked = request("undo")
    await agent.begin_one(asked)
    await agent.finish(asked, outcome)
    (due,) = await agent.inbox.take_due(10)
    assert isinstance(due.request, StepCompensate)
    assert due.outcome == outcome


async def test_a_reply_is_due_no_more_once_it_is_marked(
    agent: AgentProcess, connection: asyncpg.Connection
) -> None:
    asked = request()
    await _run(agent, asked)
    await agent.inbox.mark_replied(asked)
    assert await agent.inbox.take_due(10) == []
    row = await _row(connection)
    assert row["replied_at"] is not None
    assert row["reply_due"] is None


async def test_a_finish_whose_commit_was_not_heard_of_makes_nothing_due_again(agent: AgentProcess) -> None:
    asked = request()
    await _run(agent, asked)
    await agent.inbox.mark_replied(asked)
    assert await agent.finish(asked, DONE)
    assert await agent.inbox.take_due(10) == []


async def test_who_takes_a_due_reply_has_it_alone_for_a_lease(
    agent: AgentProcess, rival: AgentProcess
) -> None:
    await _run(agent, request())
    assert len(await rival.inbox.take_due(10)) == 1
    assert await agent.inbox.take_due(10) == []


async def test_who_takes_a_due_reply_and_dies_leaves_it_to_the_next(agent: AgentProcess) -> None:
    await _run(agent, request())
    for _ in range(2):
        assert len(await agent.inbox.take_due(10)) == 1


async def test_of_a_request_that_waits_for_its_reply_nothing_is_ever_due(
    settings: Settings, connection: asyncpg.Connection
) -> None:
    agent = agent_process(settings, await live_instance(connection), NEVER)
    await _run(agent, request())
    row = await _row(connection)
    assert (row["early"], row["reply_due"]) == (None, None)
    await agent.close()


async def test_what_other_requests_change_is_in_no_index(
    agent: AgentProcess, connection: asyncpg.Connection
) -> None:
    """Their finish stays in the page of its row, as ever."""
    asked = request().model_copy(update={"time_left_ms": 1})
    await agent.begin_one(asked)
    async with connection.transaction():
        await statement("finish_requests").rows(
            connection, owner=agent.owner, lease_seconds=10.0, nos=[asked.order_no], step_nos=[asked.step_no],
            directions=["do"], fences=[asked.fence], states=["succeeded"], replies=["1"],
        )  # fmt: skip
        seen = await connection.fetchrow(
            "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables where relid = 'inbox'::regclass"
        )
    assert seen is not None
    assert (seen["n_tup_upd"], seen["n_tup_hot_upd"]) == (1, 1)


async def test_a_success_in_the_operations_own_transaction_is_due_as_well(
    agent: AgentProcess, connection: asyncpg.Connection
) -> None:
    asked = request()
    await agent.begin_one(asked)
    no, step_no, direction = key_of(asked)
    await statement("finish_in_transaction").value(
        connection, no=no, step_no=step_no, direction=direction, fence=asked.fence, reply="1",
        lease_seconds=0.0,
    )  # fmt: skip
    assert [due.request.fence for due in await agent.inbox.take_due(10)] == [asked.fence]


async def test_a_repetition_is_under_way_while_its_owner_lives_and_answered_from_the_row_afterwards(
    agent: AgentProcess, rival: AgentProcess
) -> None:
    asked = request()
    await agent.begin_one(asked)
    assert await rival.begin_one(asked) == UnderWay()
    await agent.finish(asked, DONE)
    assert await rival.begin_one(asked) == Known(DONE, 1)


async def test_a_newer_attempt_takes_what_was_due_for_the_older_one(agent: AgentProcess) -> None:
    old, new = request(fence=10), request(fence=11)
    await agent.begin_one(old)
    await agent.finish(old, FAILED)
    await agent.begin_one(new)
    assert await agent.inbox.take_due(10) == []
    await agent.finish(new, DONE)
    assert [due.request.fence for due in await agent.inbox.take_due(10)] == [11]


async def test_a_newer_attempt_of_the_release_before_is_not_answered_for_it(
    agent: AgentProcess, connection: asyncpg.Connection
) -> None:
    """It leaves the columns as they were; its own delivery is the outbox."""
    old = request(fence=10)
    await agent.begin_one(old)
    await agent.finish(old, FAILED)
    await connection.execute("update inbox set fence = 11, state = 'running', reply = null")
    (due,) = await agent.inbox.take_due(10)
    assert due.outcome is None
    await agent.inbox.mark_replied(due.request)
    assert await agent.inbox.take_due(10) == []
    await connection.execute("update inbox set state = 'succeeded', reply = '1'")
    assert await agent.inbox.take_due(10) == []
