"""F41: an outage leaves a herd of overdue orders. It comes back at a pace; new orders pass through it."""

from __future__ import annotations

from typing import Final

import pytest

from tests.faults.cluster import STRAIGHT, Cluster
from tests.faults.service_process import ServiceProcess
from tests.herd import make_herd
from tests.waiting import eventually_true
from triumvir.contracts.names import order_key

RATE: Final = 5
NEW: Final = 20


@pytest.mark.timeout(300)
async def test_f41_a_sample_of_a_herd(cluster: Cluster) -> None:
    await _herd(cluster, 500)


@pytest.mark.slow
@pytest.mark.timeout(3000)
async def test_f41_twenty_thousand_orders_that_expired_at_once(cluster: Cluster) -> None:
    await _herd(cluster, 20_000)


async def _herd(cluster: Cluster, count: int) -> None:
    """First at a pace at which the herd takes long, whatever the machine; then as fast as it goes."""
    cluster.tune(
        step_timeout="600",
        retry_interval="300",
        instance_lease="60",
        recovery_rate=str(RATE),
        max_failures="3",
    )
    nos = await make_herd(
        cluster.database, cluster.client_name, count, workflow="trade", payload='{"ask": {}}'
    )
    cluster.load.accepted |= {order_key(cluster.client_name, f"herd-{n + 1}") for n in range(count)}
    supervisors = await _two_supervisors(cluster)
    await eventually_true(lambda: _reopened(cluster, nos, 1), within=60, what="the first of the herd")
    orders = await cluster.load.submit(NEW, "good")
    for order in orders:
        await order.result(timeout=count / RATE)
    left = await cluster.database.fetchval(
        "select count(*) from orders where no = any($1) and attempt = 1 and state = 'processing'", nos
    )
    assert left > 0, "every new order ended while the herd was still coming back"
    await _assert_paced(cluster, nos)
    await _hurry(cluster, supervisors)
    assert await cluster.settle(within=120 + count / 10, lost_after=20)
    await _assert_each_once(cluster, nos)
    await cluster.assert_sound(within=120)


async def _two_supervisors(cluster: Cluster) -> list[ServiceProcess]:
    await cluster.start(*(kind for kind in STRAIGHT if kind != "supervisor"))
    supervisors = [await cluster.add("supervisor", name) for name in ("supervisor", "second supervisor")]
    for each in supervisors:
        await each.ready()
    return supervisors


async def _hurry(cluster: Cluster, supervisors: list[ServiceProcess]) -> None:
    """Both start again, with room for everything."""
    for each in supervisors:
        await each.stop()
    cluster.tune(recovery_rate="2000", recovery_limit="5000")
    for name in ("third supervisor", "fourth supervisor"):
        await (await cluster.add("supervisor", name)).ready()


async def _reopened(cluster: Cluster, nos: list[int], least: int) -> bool:
    query = "select count(*) from transitions where no = any($1) and why like '%it is tried again'"
    return bool(await cluster.database.fetchval(query, nos) >= least)


async def _assert_paced(cluster: Cluster, nos: list[int]) -> None:
    """Two supervisors: each began with a second's worth, maybe of the whole rate, before it saw the other one."""
    row = await cluster.database.fetchrow(
        "select count(*) as moved, extract(epoch from max(at) - min(at))::float8 as seconds from transitions"
        " where no = any($1) and why like '%it is tried again'",
        nos,
    )
    assert row is not None
    assert row["moved"] <= RATE * (row["seconds"] + 4), f"{row['moved']} in {row['seconds']} s"


async def _assert_each_once(cluster: Cluster, nos: list[int]) -> None:
    rows = await cluster.database.fetch(
        "select o.state, o.attempt, count(t.n) as reopened from orders o left join transitions t"
        " on t.no = o.no and t.from_state = 'processing' and t.to_state = 'pending' and t.why not like 'held%'"
        " where o.no = any($1) group by o.no, o.state, o.attempt",
        nos,
    )
    assert {(row["state"], row["reopened"]) for row in rows} == {("processed", 1)}
    assert len(rows) == len(nos)
