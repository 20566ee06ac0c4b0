"""An agent's group commit: begins and finishes that are there together, on the real inbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.integration.store.requests import DONE, AgentProcess, agent_process, request
from tests.integration.store.rows import live_instance
from tests.waiting import eventually
from triumvir.contracts.messages import StepRequest
from triumvir.settings import Settings
from triumvir_agent.commits import Commits
from triumvir_agent.requests import Finish, Known, Taken, key_of

TOO_LARGE = 2**31
"""For the column that it goes to."""


@pytest.fixture
async def agent(settings: Settings, connection: asyncpg.Connection) -> AsyncIterator[AgentProcess]:
    process = agent_process(settings, await live_instance(connection))
    yield process
    await process.close()


def _finish(asked: StepRequest) -> Finish:
    return Finish(key_of(asked), asked.fence, DONE)


async def test_a_begin_and_a_finish_that_are_there_together_share_a_commit(
    agent: AgentProcess, connection: asyncpg.Connection
) -> None:
    first, second = request(no=1), request(no=2)
    await agent.begin_one(first)
    commits = Commits(agent.inbox, 10)
    landed, begun = await asyncio.gather(commits.finish(_finish(first)), commits.begin(second))
    assert landed
    assert isinstance(begun, Taken)
    rows = await connection.fetch("select no, state, xmin::text as writer from inbox order by no")
    assert [(row["no"], row["state"]) for row in rows] == [(1, "succeeded"), (2, "running")]
    assert rows[0]["writer"] == rows[1]["writer"]


async def test_the_next_attempt_that_begins_in_the_commit_of_a_success_hears_of_it(
    agent: AgentProcess,
) -> None:
    first, again = request(fence=10), request(fence=11)
    await agent.begin_one(first)
    commits = Commits(agent.inbox, 10)
    landed, begun = await asyncio.gather(commits.finish(_finish(first)), commits.begin(again))
    assert landed
    assert begun == Known(DONE, 1)


async def test_a_begin_that_cannot_be_written_keeps_no_outcome_back(
    agent: AgentProcess, connection: asyncpg.Connection
) -> None:
    first = request(no=1)
    await agent.begin_one(first)
    commits = Commits(agent.inbox, 10)
    landed, begun = await asyncio.gather(
        commits.finish(_finish(first)),
        commits.begin(request(no=2).model_copy(update={"generation": TOO_LARGE})),
        return_exceptions=True,
    )
    assert landed is True
    assert isinstance(begun, asyncpg.DataError)
    assert await connection.fetchval("select state from inbox where no = 1") == "succeeded"
    assert await connection.fetchval("select count(*) from inbox where no = 2") == 0


async def test_a_connection_lost_under_both_costs_neither(
    agent: AgentProcess, connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    first, second = request(no=1), request(no=2)
    await agent.begin_one(first)
    commits = Commits(agent.inbox, 10)
    async with other.transaction():
        await other.execute("select from inbox where no = 1 for update")
        waiting = asyncio.gather(commits.finish(_finish(first)), commits.begin(second))
        await eventually(lambda: _cut(connection))
    landed, begun = await waiting
    assert landed
    assert isinstance(begun, Taken)


async def _cut(connection: asyncpg.Connection) -> bool:
    """Ends the backend that waits for the lock with both; whether there was one."""
    cut: bool = await connection.fetchval(
        "select coalesce(bool_or(pg_terminate_backend(pid)), false) from pg_stat_activity "
        "where application_name = 'triumvir agent inbox' and wait_event_type = 'Lock'"
    )
    return cut
