"""Requests that only ask (PROTOCOL 9): the inbox says what it knows, and nothing is begun by it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.integration.store.requests import DONE, FAILED, AgentProcess, agent_process, request
from tests.integration.store.rows import live_instance
from triumvir.agent.calling import NEVER_BEGUN, OUTCOME_UNKNOWN
from triumvir.settings import Settings
from triumvir_agent.requests import Known, Refused, Taken


@pytest.fixture
async def agent(settings: Settings, connection: asyncpg.Connection) -> AsyncIterator[AgentProcess]:
    process = agent_process(settings, await live_instance(connection))
    yield process
    await process.close()


async def test_a_question_is_answered_with_what_was_recorded_and_begins_nothing(agent: AgentProcess) -> None:
    await agent.begin_one(request(fence=10))
    await agent.finish(request(fence=10), DONE)
    assert await agent.inbox.ask(request(fence=20)) == Known(DONE, 1)
    await agent.begin_one(request(fence=10, step_no=2))
    await agent.finish(request(fence=10, step_no=2), FAILED)
    assert await agent.inbox.ask(request(fence=20, step_no=2)) == Known(FAILED, 1)


async def test_of_a_call_that_nobody_heard_of_again_the_outcome_is_unknown(agent: AgentProcess) -> None:
    await agent.begin_one(request(fence=10))
    assert await agent.inbox.ask(request(fence=20)) == Known(OUTCOME_UNKNOWN, 1)


async def test_what_was_never_begun_is_told_so_and_cannot_be_begun_any_more(agent: AgentProcess) -> None:
    assert await agent.inbox.ask(request(fence=20)) == Known(NEVER_BEGUN, 0)
    assert await agent.begin_one(request(fence=10)) == Refused("stale")
    assert await agent.begin_one(request(fence=20)) == Refused("stale")
    assert isinstance(await agent.begin_one(request(fence=21)), Taken)


async def test_a_question_of_an_attempt_that_was_replaced_is_stale(agent: AgentProcess) -> None:
    await agent.begin_one(request(fence=30))
    assert await agent.inbox.ask(request(fence=20)) == Refused("stale")
    assert await agent.inbox.count_call(request(fence=30)) == 2


async def test_a_success_that_was_asked_about_too_early_still_lands(agent: AgentProcess) -> None:
    await agent.begin_one(request(fence=10))
    assert await agent.inbox.ask(request(fence=20)) == Known(OUTCOME_UNKNOWN, 1)
    assert await agent.finish(request(fence=10), DONE)
    assert await agent.inbox.ask(request(fence=20)) == Known(DONE, 1)
