"""Conditions and selections while schedulers die: each step is skipped once or run, never both, and gets the same."""

from __future__ import annotations

import pytest

from tests.faults.agents import CHOOSY
from tests.faults.cluster import Cluster
from tests.faults.shared import SharedCluster
from tests.waiting import eventually_true
from triumvir.contracts.names import order_key
from triumvir.local.database import PrivateDatabase
from triumvir.store.documents import AWAY
from triumvir.store.operators import apply_workflow
from triumvir.workflow import Workflow

POINTS = (
    pytest.param("scheduler.claim.before_commit", marks=pytest.mark.slow),
    "scheduler.claim.after_commit",
    "scheduler.reply.before_commit",
    pytest.param("scheduler.reply.after_commit", marks=pytest.mark.slow),
)
WAVES = 60
COUNT = 12


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("point", POINTS)
async def test_a_scheduler_that_dies_as_it_decides_leaves_one_decision(
    shared_cluster: SharedCluster, point: str
) -> None:
    async with shared_cluster.taken() as cluster:
        await choose(cluster, CHOOSY)
        before = cluster.crashes(point)
        victim = await cluster.arm("scheduler", point, 1, 3)
        for _ in range(WAVES):
            await cluster.load.submit(12)
            if await victim.dies(times=2, within=2.0):
                break
        assert cluster.crashes(point) == before + 2, f"nobody died twice at {point}"
        await cluster.assert_sound()
        await assert_decided_once(cluster)


async def test_while_the_payloads_are_away_nothing_is_skipped(
    two_databases: Cluster, orders_server: PrivateDatabase
) -> None:
    cluster = two_databases
    await choose(cluster, CHOOSY)
    await cluster.start("submitter", "scheduler", "supervisor")
    await cluster.load.submit(COUNT)  # held: there is no agent
    held = "select count(*) from orders where held_by is not null and held_by = coalesce($1, held_by)"
    await eventually_true(lambda: holds(cluster, held, None), within=60, what="orders held for an agent")
    orders_server.stop()
    await cluster.start("agent")
    await eventually_true(
        lambda: holds(cluster, held, AWAY), within=60, what="orders held for their payloads"
    )
    assert await cluster.database.fetchval("select count(*) from steps") == 0
    orders_server.start()
    await cluster.assert_sound()
    await assert_decided_once(cluster)


async def holds(cluster: Cluster, query: str, reason: str | None) -> bool:
    open_orders = "select count(*) from orders where state not in ('cancelled')"
    count: int = await cluster.database.fetchval(query, reason)
    return count > 0 and count == await cluster.database.fetchval(open_orders)


async def choose(cluster: Cluster, workflow: Workflow) -> None:
    await apply_workflow(cluster.database, workflow)
    cluster.load.workflow = workflow.name


async def assert_decided_once(cluster: Cluster) -> None:
    """Good orders have skipped ``book``, once by their history; the others never."""
    rows = await cluster.database.fetch(
        "select o.client, o.order_id, s.state, (select count(*) from transitions t"
        "  where t.no = o.no and t.why like 'book skipped:%') as skips"
        " from orders o left join steps s on s.no = o.no and s.step_no = 2 where o.workflow = 'choosy'"
    )
    assert rows
    for row in rows:
        kind = cluster.load.kinds[order_key(row["client"], row["order_id"])].name
        skipped = kind == "good"
        assert row["skips"] == skipped, f"{kind}: skipped {row['skips']} times"
        assert (row["state"] == "skipped") == skipped, f"{kind}: {row['state']}"
