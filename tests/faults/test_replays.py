"""Replays of dead letters while their submitters die: each order once, each letter settled, nobody stuck."""

from __future__ import annotations

import signal

import pytest

from tests.faults.cluster import Cluster
from tests.faults.letters import answered, late, replay, settlements
from tests.waiting import eventually, eventually_true
from triumvir.runtime.crash import EXIT_CODE
from triumvir_submitter.replays import MOST_TRIES


async def test_a_submitter_that_dies_between_accepting_and_settling_does_both_once_in_its_next_life(
    cluster: Cluster,
) -> None:
    """The other points at which it may die in a replay are those of F35."""
    await cluster.start()
    ids = await late(cluster, "late", 6)
    submitter = await cluster.arm("submitter", "submitter.replay.before_commit", 1, 2)
    await replay(cluster, ids)
    assert await submitter.dies(times=2)
    await eventually_true(lambda: answered(cluster, ids), within=60, what="the answers")
    assert await settlements(cluster, ids) == {"replayed": 6}
    await cluster.assert_sound()
    assert list((await cluster.states()).values()) == ["processed"] * 6


@pytest.mark.slow
async def test_two_submitters_that_are_killed_again_and_again_replay_every_letter_once(
    cluster: Cluster,
) -> None:
    await cluster.start()
    second = await cluster.add("submitter", "second submitter")
    submitters = (cluster.services["submitter"], second)
    ids = await late(cluster, "late", 300)
    await replay(cluster, ids)
    for _ in range(3):
        await until_more_are_answered(cluster)
        for submitter in submitters:
            submitter.send(signal.SIGKILL)
        assert not await answered(cluster, ids), "they were killed in the middle of it"
    await eventually_true(lambda: answered(cluster, ids), within=60, what="the answers")
    assert all(len(submitter.exits) >= 3 for submitter in submitters)
    assert await settlements(cluster, ids) == {"replayed": 300}
    answers = "select count(*) from dead_letter_log where what = 'replayed'"
    assert await cluster.database.fetchval(answers) == 300
    await cluster.assert_sound()
    assert list((await cluster.states()).values()) == ["processed"] * 300


@pytest.mark.slow
async def test_with_two_databases_a_replay_that_died_between_them_is_done_once_in_the_next_life(
    two_databases: Cluster,
) -> None:
    cluster = two_databases
    await cluster.start()
    ids = await late(cluster, "late", 6)
    submitter = await cluster.arm("submitter", "submitter.documents.after_commit", 1, 2)
    await replay(cluster, ids)
    assert await submitter.dies(times=2)
    await eventually_true(lambda: answered(cluster, ids), within=60, what="the answers")
    assert await settlements(cluster, ids) == {"replayed": 6}
    await cluster.assert_sound()
    assert list((await cluster.states()).values()) == ["processed"] * 6


@pytest.mark.slow
async def test_a_replay_that_ends_every_submitter_is_given_up_and_the_door_stays_open(
    cluster: Cluster,
) -> None:
    await cluster.start()
    ids = await late(cluster, "late", 1)
    submitter = await cluster.arm("submitter", "submitter.replay.before_commit", *[1] * (MOST_TRIES + 1))
    await replay(cluster, ids)
    await eventually_true(lambda: answered(cluster, ids), within=60, what="the answer")
    assert submitter.exits.count(EXIT_CODE) == MOST_TRIES
    (row,) = await cluster.database.fetch("select reason, detail, settlement from dead_letters")
    assert tuple(row) == ("quarantined", f"replayed {MOST_TRIES} times without an answer", None)
    await submitter.restart()
    await submitter.ready()
    await replay(cluster, ids)
    await eventually_true(lambda: answered(cluster, ids), within=60, what="the answer after the repair")
    assert await settlements(cluster, ids) == {"replayed": 1}
    await cluster.load.submit(5, "good")
    await cluster.assert_sound()


@pytest.mark.slow
async def test_a_submission_that_ended_every_submitter_is_told_to_its_client_and_replayed_after_the_repair(
    cluster: Cluster,
) -> None:
    await cluster.start()
    submitter = await cluster.arm("submitter", "submitter.before_commit", 1, 1, 1)
    order = await cluster.load.submit_one("deadly")
    assert await submitter.dies(times=3)

    async def is_kept() -> bool:
        return bool(
            await cluster.database.fetchval("select count(*) from dead_letters where reason = 'quarantined'")
        )

    await eventually_true(is_kept, within=60, what="the letter")
    ids = [str(row["id"]) for row in await cluster.database.fetch("select id from dead_letters")]
    await eventually(
        lambda: "rejected" in [told.status for told in cluster.load.received[order.key]], what="the answer"
    )
    await replay(cluster, ids)
    await eventually_true(lambda: answered(cluster, ids), within=60, what="the answer to the replay")
    await cluster.assert_sound()
    assert await cluster.states() == {order.key: "processed"}


@pytest.mark.slow
async def test_replays_outlive_lost_connections_and_none_is_given_up_for_them(cluster: Cluster) -> None:
    await cluster.start()
    ids = await late(cluster, "late", 100)
    await replay(cluster, ids)
    ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'triumvir submitter%'"
    for _ in range(MOST_TRIES + 1):
        await until_more_are_answered(cluster)
        assert await cluster.database.fetch(ended)
    await eventually_true(lambda: answered(cluster, ids), within=60, what="the answers")
    assert await settlements(cluster, ids) == {"replayed": 100}
    await cluster.assert_sound()


async def until_more_are_answered(cluster: Cluster) -> None:
    """Until submitters are at it (again)."""
    query = "select count(*) from dead_letter_log where what = 'replayed'"
    before = await cluster.database.fetchval(query)

    async def is_more() -> bool:
        return bool(await cluster.database.fetchval(query) > before)

    await eventually_true(is_more, within=60, what="more answers")
