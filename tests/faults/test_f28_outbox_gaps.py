"""F28: outbox rows become visible in another order than that of their ids. A cursor would pass one over for good."""

from __future__ import annotations

import random
from typing import Final

import asyncpg
import pytest

from tests.faults.cluster import Cluster
from tests.herd import make_herd
from tests.waiting import eventually, eventually_true
from triumvir.contracts.names import order_key
from triumvir.runtime import refs
from triumvir.runtime.refs import StatusRef

INSERT: Final = "insert into outbox (lease, refs) values (clock_timestamp(), $1) returning id"
AT_ONCE: Final = 6
"""Transactions that are open beside each other."""


async def test_f28_an_outbox_row_that_commits_after_a_younger_one_was_swept_is_sent(cluster: Cluster) -> None:
    late, early = await untold(cluster, 2)
    slow = await another(cluster)
    try:
        transaction = slow.transaction()
        await transaction.start()
        first = await slow.fetchval(INSERT, received(late))
        second = await cluster.database.fetchval(INSERT, received(early))
        assert first < second
        await cluster.start("scheduler")
        await eventually_true(
            lambda: is_gone(cluster, second), within=90, what="the sweep of the younger row"
        )
        assert await cluster.database.fetchval("select count(*) from transitions where no = $1", late) == 2
        assert not cluster.load.received[key(cluster, 1)]
        await transaction.commit()
    finally:
        await slow.close()
    await eventually_true(lambda: is_gone(cluster, first), within=90, what="the sweep of the older row")
    await assert_told(cluster, 2)
    await cluster.start("submitter", "agent", "supervisor")
    await cluster.assert_sound()


@pytest.mark.slow
async def test_f28_of_rows_that_commit_in_any_order_under_two_sweeps_each_is_sent(cluster: Cluster) -> None:
    count, chance = 600, random.Random(cluster.seed)
    nos = await untold(cluster, count)
    for name in ("scheduler", "second scheduler"):
        await (await cluster.add("scheduler", name)).ready()
    lanes = [await another(cluster) for _ in range(AT_ONCE)]
    committed: list[int] = []
    while nos:
        batch = [nos.pop() for _ in range(min(AT_ONCE, len(nos)))]
        transactions = [lane.transaction() for lane, _ in zip(lanes, batch, strict=False)]
        for transaction in transactions:
            await transaction.start()
        ids = [await lane.fetchval(INSERT, received(no)) for lane, no in zip(lanes, batch, strict=False)]
        order = chance.sample(range(len(batch)), len(batch))
        for place in order:
            await transactions[place].commit()
        committed += [ids[place] for place in order]
    for lane in lanes:
        await lane.close()
    assert committed != sorted(committed), "some became visible after younger ones"
    await assert_told(cluster, count)
    await cluster.start("submitter", "agent", "supervisor")
    await cluster.assert_sound()


async def untold(cluster: Cluster, count: int) -> list[int]:
    """Orders of the cluster's client that nobody has told it of; what is sent for one of them is in its outbox row."""
    nos = await make_herd(
        cluster.database, cluster.client_name, count, workflow="trade", payload='{"ask": {}}', told=False
    )
    cluster.load.accepted |= {key(cluster, n) for n in range(1, count + 1)}
    return nos


def key(cluster: Cluster, n: int) -> str:
    return order_key(cluster.client_name, f"herd-{n}")


def received(no: int) -> str:
    return refs.write([StatusRef(no, 1)])


async def another(cluster: Cluster) -> asyncpg.Connection:
    return await asyncpg.connect(
        cluster.settings.database_url, server_settings={"search_path": cluster.settings.database_schema}
    )


async def is_gone(cluster: Cluster, row: int) -> bool:
    return not await cluster.database.fetchval("select exists (select from outbox where id = $1)", row)


async def assert_told(cluster: Cluster, count: int) -> None:
    """The client hears of each that it was received."""

    def all_told() -> bool:
        heard = cluster.load.received
        return all(
            any(status.status == "received" for status in heard[key(cluster, n)]) for n in range(1, count + 1)
        )

    await eventually(all_told, within=90, what=f"'received' of {count} orders")
