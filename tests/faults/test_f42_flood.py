"""F42: ten times more is submitted than there is room for, while nobody works it off."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from tests.faults.cluster import Cluster
from tests.waiting import eventually
from triumvir.client import Submission
from triumvir.contracts.names import order_key

BATCH: Final = 10
"""The cap is soft by one batch of every submitter."""


async def test_f42_a_sample_of_a_flood(cluster: Cluster) -> None:
    await flood(cluster, 30)


@pytest.mark.slow
async def test_f42_a_flood_of_ten_thousand_orders(cluster: Cluster) -> None:
    await flood(cluster, 1000)


async def flood(cluster: Cluster, room: int) -> None:
    cluster.tune(max_open_orders=str(room), batch_limit=str(BATCH))
    await cluster.start("submitter", "scheduler", "supervisor")  # and no agent: no order comes to its end
    told = await submit(cluster, 10 * room)
    accepted = [order_id for order_id, status in told.items() if status == "received"]
    assert Counter(told.values())["rejected"] == 10 * room - len(accepted)
    assert room <= len(accepted) < room + BATCH
    for table in ("orders", "order_documents"):
        assert await cluster.database.fetchval(f"select count(*) from {table}") == len(accepted)
    cluster.load.accepted |= {order_key(cluster.client_name, order_id) for order_id in accepted}
    await cluster.start("agent")
    await cluster.assert_sound(expected_dead=await refused(cluster, 10 * room - len(accepted)))
    states = await cluster.states()
    assert set(states.values()) == {"processed"}
    assert len(states) == len(accepted)
    again = await cluster.load.submit(BATCH, "good")  # there is room again
    for order in again:
        await order.result(timeout=90)


async def submit(cluster: Cluster, count: int) -> dict[str, str]:
    """So many orders; what became of each at the door, by order id."""
    ids = [f"flood-{n}" for n in range(count)]
    submissions = [Submission("trade", {"ask": {}}, order_id) for order_id in ids]
    sent = [submitted async for submitted in cluster.client.submit_many(submissions)]
    assert all(submitted.error is None for submitted in sent)
    heard = cluster.load.received

    def answers() -> dict[str, str]:
        first = {order_id: heard[order_key(cluster.client_name, order_id)][:1] for order_id in ids}
        return {order_id: statuses[0].status for order_id, statuses in first.items() if statuses}

    await eventually(lambda: len(answers()) == count, within=120, what="an answer to every submission")
    return answers()


async def refused(cluster: Cluster, count: int) -> list[str]:
    """The message ids of what found no room; each was refused for that alone."""
    rows = await cluster.database.fetch("select message_id, reason, detail from dead_letters")
    assert len(rows) == count
    assert {row["reason"] for row in rows} == {"full"}, Counter(row["detail"] for row in rows)
    return [row["message_id"] for row in rows]
