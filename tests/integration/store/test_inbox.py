"""The agents' inbox: who may call, who answers from memory, and who is fenced off (PROTOCOL 9 and 13)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.integration.store.requests import DONE, FAILED, AgentProcess, agent_process, request
from tests.integration.store.rows import live_instance
from triumvir.agent.calling import Success
from triumvir.settings import Settings
from triumvir.store.statements import statement
from triumvir_agent.requests import Finish, Known, Refused, Taken, UnderWay, key_of

FOREVER = 2**63 - 1


@pytest.fixture
async def agent(settings: Settings, connection: asyncpg.Connection) -> AsyncIterator[AgentProcess]:
    process = agent_process(settings, await live_instance(connection))
    yield process
    await process.close()


@pytest.fixture
async def rival(settings: Settings, connection: asyncpg.Connection) -> AsyncIterator[AgentProcess]:
    process = agent_process(settings, await live_instance(connection))
    yield process
    await process.close()


async def _close_expired(connection: asyncpg.Connection, *, fence: int, direction: str = "do") -> Any:
    (row,) = await statement("close_expired").rows(
        connection, nos=[1], step_nos=[1], directions=[direction], fences=[fence]
    )
    return row


async def _row(connection: asyncpg.Connection, direction: str = "do") -> Any:
    return await connection.fetchrow("select * from inbox where direction = $1", direction)


async def _lapse(connection: asyncpg.Connection, process: AgentProcess) -> None:
    await connection.execute(
        "update instances set lease_until = clock_timestamp() - interval '1 s' where id = $1", process.owner
    )


async def test_a_new_request_is_taken_and_its_first_call_is_counted(agent: AgentProcess) -> None:
    begun = await agent.begin_one(request(seconds=500))
    assert isinstance(begun, Taken)
    assert begun.calls == 1
    assert 400 < begun.seconds_left <= 500


async def test_time_left_is_told_by_the_database_and_without_any_nothing_is_called(
    agent: AgentProcess, connection: asyncpg.Connection
) -> None:
    assert await agent.begin_one(request(seconds=-1)) == Refused("no_time")
    assert await _row(connection) is None


async def test_of_two_agents_that_begin_at_once_exactly_one_takes(
    agent: AgentProcess, rival: AgentProcess
) -> None:
    for no in range(1, 20):
        asked = request(no=no)
        begun = await asyncio.gather(agent.begin_one(asked), rival.begin_one(asked))
        assert sorted(type(answer).__name__ for answer in begun) == ["Taken", "UnderWay"]


async def test_a_request_that_a_live_agent_is_calling_for_is_left_alone(
    agent: AgentProcess, rival: AgentProcess
) -> None:
    await agent.begin_one(request())
    assert await rival.begin_one(request()) == UnderWay()
    assert await agent.begin_one(request()) == UnderWay()


async def test_a_request_of_an_agent_whose_lease_lapsed_is_taken_over(
    agent: AgentProcess, rival: AgentProcess, connection: asyncpg.Connection
) -> None:
    await agent.begin_one(request())
    await _lapse(connection, agent)
    begun = await rival.begin_one(request())
    assert isinstance(begun, Taken)
    assert begun.calls == 2


async def test_a_begin_whose_answer_was_lost_is_the_agents_own_again(agent: AgentProcess) -> None:
    asked = request()
    await agent.begin_one(asked)
    agent.inbox.leave(asked)
    assert isinstance(await agent.begin_one(asked), Taken)


async def test_a_newer_attempt_takes_over_whatever_the_older_one_is_doing(
    agent: AgentProcess, rival: AgentProcess
) -> None:
    older, newer = request(fence=10), request(fence=11)
    await agent.begin_one(older)
    assert isinstance(await rival.begin_one(newer), Taken)
    assert not await agent.finish(older, FAILED)
    assert await rival.finish(newer, DONE)


async def test_an_older_attempt_is_refused_once_a_newer_one_began(
    agent: AgentProcess, rival: AgentProcess
) -> None:
    await agent.begin_one(request(fence=11))
    assert await rival.begin_one(request(fence=10)) == Refused("stale")
    await agent.finish(request(fence=11), FAILED)
    assert await rival.begin_one(request(fence=10)) == Refused("stale")


async def test_a_request_sent_again_after_its_answer_is_answered_again(
    agent: AgentProcess, rival: AgentProcess
) -> None:
    await agent.begin_one(request())
    assert await agent.finish(request(), FAILED)
    assert await rival.begin_one(request()) == Known(FAILED, 1)


async def test_a_failed_request_is_called_again_by_the_next_attempt(agent: AgentProcess) -> None:
    await agent.begin_one(request(fence=10))
    await agent.finish(request(fence=10), FAILED)
    begun = await agent.begin_one(request(fence=11))
    assert isinstance(begun, Taken)
    assert begun.calls == 2


async def test_a_recorded_success_is_sent_to_every_attempt_and_called_for_by_none(
    agent: AgentProcess, rival: AgentProcess, connection: asyncpg.Connection
) -> None:
    await agent.begin_one(request(fence=10))
    await agent.finish(request(fence=10), DONE)
    for asked in (request(fence=9), request(fence=10), request(fence=11), request(fence=12, seconds=-5)):
        assert await rival.begin_one(asked) == Known(DONE, 1)
    await _close_expired(connection, fence=20)
    assert await rival.begin_one(request(fence=15)) == Known(DONE, 1)


async def test_a_finish_lands_again_when_the_answer_to_its_commit_was_lost(agent: AgentProcess) -> None:
    await agent.begin_one(request())
    assert await agent.finish(request(), DONE)
    assert await agent.finish(request(), DONE)
    assert not await agent.finish(request(), FAILED)


async def test_no_agent_begins_what_the_supervisor_closed(
    agent: AgentProcess, connection: asyncpg.Connection
) -> None:
    closed = await _close_expired(connection, fence=10)
    assert (closed["fence"], closed["state"], closed["calls"]) == (0, "fenced", 0)
    assert await agent.begin_one(request(fence=10)) == Refused("stale")
    assert isinstance(await agent.begin_one(request(fence=11)), Taken)


async def test_the_supervisor_sees_what_was_begun_before_it_closed(
    agent: AgentProcess, connection: asyncpg.Connection
) -> None:
    await agent.begin_one(request(fence=10))
    closed = await _close_expired(connection, fence=10)
    assert (closed["fence"], closed["state"], closed["calls"]) == (10, "running", 1)
    assert await agent.inbox.count_call(request(fence=10)) is None


async def test_closing_never_lowers_what_was_closed_before(connection: asyncpg.Connection) -> None:
    await _close_expired(connection, fence=20)
    await _close_expired(connection, fence=10)
    assert (await _row(connection))["refuse_upto"] == 20


async def test_each_further_call_is_counted_first_and_not_past_the_deadline(
    agent: AgentProcess, connection: asyncpg.Connection
) -> None:
    asked = request()
    await agent.begin_one(asked)
    assert [await agent.inbox.count_call(asked) for _ in range(2)] == [2, 3]
    await connection.execute("update inbox set complete_by = clock_timestamp()")
    assert await agent.inbox.count_call(asked) is None


async def test_an_undo_closes_its_forward_row_for_every_later_request(
    agent: AgentProcess, rival: AgentProcess, connection: asyncpg.Connection
) -> None:
    assert isinstance(await agent.begin_one(request("undo", fence=20)), Taken)
    assert (await _row(connection, "do"))["refuse_upto"] == FOREVER
    for fence in (19, 21):
        assert await rival.begin_one(request("do", fence=fence)) == Refused("stale")


async def test_an_undo_waits_for_a_forward_call_that_may_still_land(
    agent: AgentProcess, rival: AgentProcess, connection: asyncpg.Connection
) -> None:
    await agent.begin_one(request("do", fence=10))
    await _lapse(connection, agent)
    assert await rival.begin_one(request("undo", fence=20)) == UnderWay()
    assert await _row(connection, "undo") is None
    await connection.execute("update inbox set complete_by = clock_timestamp()")
    assert isinstance(await rival.begin_one(request("undo", fence=20)), Taken)
    assert await agent.inbox.count_call(request("do", fence=10)) is None


async def test_a_forward_call_that_was_answered_is_undone_at_once(
    agent: AgentProcess, rival: AgentProcess
) -> None:
    await agent.begin_one(request("do", fence=10))
    await agent.finish(request("do", fence=10), DONE)
    assert isinstance(await rival.begin_one(request("undo", fence=20)), Taken)
    assert await agent.begin_one(request("do", fence=10)) == Known(DONE, 1)


async def test_an_undo_out_of_time_closes_nothing(
    agent: AgentProcess, connection: asyncpg.Connection
) -> None:
    assert await agent.begin_one(request("undo", fence=20, seconds=-1)) == Refused("no_time")
    assert await _row(connection, "do") is None


async def test_an_undo_is_made_once_and_answered_from_memory_after_that(
    agent: AgentProcess, rival: AgentProcess
) -> None:
    await agent.begin_one(request("undo", fence=20))
    await agent.finish(request("undo", fence=20), DONE)
    assert await rival.begin_one(request("undo", fence=30)) == Known(DONE, 1)


async def test_a_new_generation_of_an_undo_is_made_anew(agent: AgentProcess, rival: AgentProcess) -> None:
    await agent.begin_one(request("undo", fence=20))
    await agent.finish(request("undo", fence=20), DONE)
    assert isinstance(await rival.begin_one(request("undo", fence=30, generation=1)), Taken)
    await rival.finish(request("undo", fence=30, generation=1), DONE)
    assert await agent.begin_one(request("undo", fence=40, generation=1)) == Known(DONE, 2)


async def test_forward_and_undo_of_one_step_in_one_batch_do_not_fail_their_neighbours(
    agent: AgentProcess, connection: asyncpg.Connection
) -> None:
    forward, undo, neighbour = request("do", fence=10), request("undo", fence=20), request("do", no=2)
    begun = await agent.begin(forward, undo, neighbour)
    assert [type(answer) for answer in begun] == [Taken, UnderWay, Taken]


async def test_of_two_attempts_in_one_batch_the_newer_one_begins(agent: AgentProcess) -> None:
    begun = await agent.begin(request(fence=10), request(fence=11), request(fence=11))
    assert [type(answer) for answer in begun] == [UnderWay, Taken, UnderWay]


async def test_a_transaction_is_not_recorded_for_an_attempt_that_was_fenced_off(
    agent: AgentProcess, connection: asyncpg.Connection
) -> None:
    await agent.begin_one(request(fence=10))
    await _close_expired(connection, fence=10)
    recorded = await statement("finish_in_transaction").value(
        connection, no=1, step_no=1, direction="do", fence=10, reply="1", lease_seconds=10.0
    )
    assert recorded is None
    assert not await agent.inbox.is_recorded(request(fence=10))


async def test_a_commit_of_unknown_outcome_is_seen_once_it_is_through(
    agent: AgentProcess, connection: asyncpg.Connection
) -> None:
    asked = request()
    await agent.begin_one(asked)
    transaction = connection.transaction()
    await transaction.start()
    await statement("finish_in_transaction").value(
        connection, no=1, step_no=1, direction="do", fence=asked.fence, reply="1", lease_seconds=10.0
    )
    looked = asyncio.create_task(agent.inbox.is_recorded(asked))
    done, _ = await asyncio.wait([looked], timeout=0.1)
    assert not done
    await transaction.commit()
    assert await looked


async def test_an_outcome_that_postgres_refuses_is_a_failure_and_its_neighbours_land(
    agent: AgentProcess, connection: asyncpg.Connection
) -> None:
    bad, good = request(no=1), request(no=2)
    await agent.begin(bad, good)
    refused = Finish(key_of(bad), bad.fence, Success("\x00"))
    assert await agent.inbox.finish([refused, Finish(key_of(good), good.fence, DONE)]) == [True, True]
    states = await connection.fetch("select state from inbox order by no")
    assert [row["state"] for row in states] == ["failed", "succeeded"]


async def test_a_takeover_under_the_same_fence_is_in_doubt_and_a_new_attempt_is_not(
    agent: AgentProcess, rival: AgentProcess, connection: asyncpg.Connection
) -> None:
    first = await agent.begin_one(request(fence=10))
    await _lapse(connection, agent)
    second = await rival.begin_one(request(fence=10))
    third = await rival.begin_one(request(fence=11))
    assert isinstance(first, Taken)
    assert isinstance(second, Taken)
    assert isinstance(third, Taken)
    assert [(begun.doubt, begun.tries) for begun in (first, second, third)] == [
        (False, 1),
        (True, 2),
        (False, 1),
    ]


async def test_an_undo_waits_for_the_call_of_a_dead_agent_though_its_heir_has_answered(
    agent: AgentProcess, rival: AgentProcess, connection: asyncpg.Connection
) -> None:
    await agent.begin_one(request("do", fence=10))
    await _lapse(connection, agent)
    await rival.begin_one(request("do", fence=10))
    assert await rival.finish(request("do", fence=10), FAILED)
    assert await rival.begin_one(request("undo", fence=20)) == UnderWay()
    await connection.execute("update inbox set complete_by = clock_timestamp()")
    assert isinstance(await rival.begin_one(request("undo", fence=20)), Taken)


async def test_the_failure_of_an_agent_that_was_replaced_does_not_speak_for_its_heir(
    agent: AgentProcess, rival: AgentProcess, connection: asyncpg.Connection
) -> None:
    await agent.begin_one(request())
    await _lapse(connection, agent)
    await rival.begin_one(request())
    assert not await agent.finish(request(), FAILED)
    assert (await _row(connection, "do"))["state"] == "running"
    assert await rival.finish(request(), FAILED)
    assert await agent.finish(request(), DONE), (
        "but a success is a success, and stands though its heir failed"
    )
    assert isinstance(await rival.begin_one(request(fence=11)), Known)


async def test_an_unknown_operation_is_refused_only_where_nobody_has_begun_it(
    agent: AgentProcess, rival: AgentProcess
) -> None:
    assert await rival.inbox.refuse_unknown(request(fence=10)) == Refused("unknown_operation")
    assert await agent.begin_one(request(fence=10)) == Refused("stale"), "the refusal closed that attempt"
    await agent.begin_one(request(fence=11))
    assert await rival.inbox.refuse_unknown(request(fence=11)) == UnderWay()
    await agent.finish(request(fence=11), DONE)
    assert await rival.inbox.refuse_unknown(request(fence=11)) == Known(DONE, 1)


async def test_a_call_of_an_agent_that_died_leaves_a_doubt_to_whoever_takes_over(
    agent: AgentProcess, rival: AgentProcess, connection: asyncpg.Connection
) -> None:
    await agent.begin_one(request())
    await _lapse(connection, agent)
    begun = await rival.begin_one(request())
    assert isinstance(begun, Taken)
    assert (begun.tries, begun.doubt) == (2, True)
    await rival.finish(request(), FAILED)
    assert await agent.begin_one(request("undo", fence=20)) == UnderWay(), (
        "the dead agent's call may still land"
    )


async def test_an_operation_that_is_not_offered_here_is_refused_unless_it_runs_elsewhere(
    agent: AgentProcess, rival: AgentProcess
) -> None:
    assert await agent.inbox.refuse_unknown(request(no=1)) == Refused("unknown_operation")
    assert await rival.begin_one(request(no=1)) == Refused("stale"), "the attempt is closed"
    await rival.begin_one(request(no=2))
    assert await agent.inbox.refuse_unknown(request(no=2)) == UnderWay()
    await rival.finish(request(no=2), DONE)
    assert await agent.inbox.refuse_unknown(request(no=2)) == Known(DONE, 1)


async def test_only_the_owner_tells_of_a_failure(
    agent: AgentProcess, rival: AgentProcess, connection: asyncpg.Connection
) -> None:
    await agent.begin_one(request())
    await _lapse(connection, agent)
    await rival.begin_one(request())
    assert not await agent.finish(request(), FAILED)
    assert await agent.finish(request(), DONE), "a success is never lost"


async def test_a_step_whose_calls_were_cut_off_twice_is_told_from_one_that_failed(
    agent: AgentProcess, rival: AgentProcess
) -> None:
    asked = [request(fence=fence) for fence in (10, 20, 30, 40)]
    await agent.begin_one(asked[0])
    assert not await rival.inbox.was_cut_off(asked[1]), "once is no pattern"
    await agent.begin_one(asked[1])
    assert not await rival.inbox.was_cut_off(asked[1]), "it may still be under way"
    assert await rival.inbox.was_cut_off(asked[2])
    await rival.begin_one(asked[2])
    await rival.finish(asked[2], FAILED)
    assert not await rival.inbox.was_cut_off(asked[3]), "that one was heard out"
