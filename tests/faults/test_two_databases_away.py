"""Two databases, one of them away: nothing is lost, and what waits for it is held in the open and burns nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from tests.faults.cluster import Cluster
from tests.faults.pressure import more_ended, said, time_passes, under_load
from tests.waiting import eventually, eventually_true
from triumvir.client import Order
from triumvir.local import PrivateServers
from triumvir.local.database import PrivateDatabase
from triumvir.store.documents import AWAY
from triumvir.telemetry import events

SECONDS = 6.0
"""An outage: twice the longest deadline of a step."""
HELD = "select count(*) from orders where held_by = $1"
PATIENT = 6.0
"""The deadline of a step where none may burn: a slow machine keeps it, too."""
BURNT = "select coalesce(max(failure_count + unbegun_count), 0) from orders"


async def test_the_orders_database_away_under_load_holds_every_order_and_burns_nothing(
    two_databases: Cluster, orders_server: PrivateDatabase
) -> None:
    cluster = two_databases
    cluster.tune(step_timeout=str(PATIENT))
    await cluster.start()
    later = await submit_later(cluster, seconds=20)
    async with under_load(cluster, "good"):
        await more_ended(cluster, 10)
        await asyncio.to_thread(orders_server.stop)
        await eventually_true(lambda: all_held(cluster), within=60, what="that no order is dispatched")
        accepted = len(await cluster.states())
        await time_passes(2 * PATIENT)
        assert len(await cluster.states()) == accepted, "nothing is accepted"
        assert await all_held(cluster), "nothing is dispatched"
        await asyncio.to_thread(orders_server.start)
        await more_ended(cluster, 30)
    await later.result(timeout=60)
    await cluster.assert_sound()
    assert await cluster.database.fetchval(BURNT) == 0
    assert said(cluster, "scheduler", events.DATABASE_LOST)
    assert said(cluster, "submitter", events.DATABASE_FOUND)


@pytest.mark.slow
async def test_the_orders_database_that_crashes_under_the_whole_mix_costs_no_order(
    two_databases: Cluster, orders_server: PrivateDatabase
) -> None:
    cluster = two_databases
    await cluster.start()
    for kind in ("submitter", "scheduler", "supervisor"):
        await (await cluster.add(kind, f"second {kind}")).ready()
    async with under_load(cluster):
        for _ in range(3):
            await more_ended(cluster, 10)
            await asyncio.to_thread(orders_server.stop, "immediate")
            await time_passes(SECONDS / 2)
            await asyncio.to_thread(orders_server.start)
        await more_ended(cluster, 10)
    await cluster.assert_sound()


async def test_an_orders_database_that_answers_no_more_is_away(
    two_databases: Cluster, orders_server: PrivateDatabase
) -> None:
    """Its connections stay open: time-outs notice, nothing hangs for longer, and nobody gives up."""
    cluster = two_databases
    cluster.tune(statement_timeout="1", watchdog_timeout="20", step_timeout=str(PATIENT))
    await cluster.start()
    later = await submit_later(cluster, seconds=20)
    async with under_load(cluster, "good"):
        await more_ended(cluster, 10)
        with frozen(orders_server):
            await eventually_true(lambda: all_held(cluster), within=60, what="the later order held")
        await more_ended(cluster, 30)
    await later.result(timeout=60)
    await cluster.assert_sound()
    assert await cluster.database.fetchval(BURNT) == 0
    assert not any(service.exits for service in cluster.services.values()), "nobody gave up"


async def test_an_order_in_its_last_step_is_completed_while_the_orders_database_is_away(
    two_databases: Cluster, orders_server: PrivateDatabase
) -> None:
    """And one before it is held, goes on once the database is back, and tells its client both."""
    cluster = two_databases
    await cluster.start()
    last = await cluster.load.submit_one("last", {"charge": {"slow": 2}})
    first = await cluster.load.submit_one("first", {"reserve": {"slow": 2}})
    await eventually_true(lambda: runs(cluster, {"first": 1, "last": 3}), what="both in their slow step")
    await asyncio.to_thread(orders_server.stop)
    await last.result(timeout=60)
    await eventually_true(lambda: all_held(cluster), what="the other one held")
    assert await cluster.database.fetchval("select held_by from orders where order_id = 'first'") == AWAY
    await asyncio.to_thread(orders_server.start)
    await first.result(timeout=60)
    await cluster.assert_sound()
    assert "held" in [status.status for status in cluster.load.followed[first.key]]


async def test_the_state_repository_away_under_load_costs_nothing_although_documents_can_be_written(
    two_databases: Cluster, private_servers: PrivateServers
) -> None:
    cluster = two_databases
    cluster.tune(max_failures="6")  # an outage costs a step its attempt, as with one database
    await cluster.start()
    async with under_load(cluster):
        await more_ended(cluster, 10)
        await asyncio.to_thread(private_servers.database.stop)
        await time_passes(SECONDS)
        await asyncio.to_thread(private_servers.database.start)
        await more_ended(cluster, 10)
    await cluster.reconnect()
    await cluster.assert_sound()


async def test_services_that_start_while_the_orders_database_is_away_wait_for_it(
    two_databases: Cluster, orders_server: PrivateDatabase
) -> None:
    """Schedulers and supervisors do what they can; a submitter has its messages in hand and settles none."""
    cluster = two_databases
    await asyncio.to_thread(orders_server.stop)
    for kind in ("agent", "scheduler", "supervisor", "submitter"):
        await cluster.add(kind)
    await cluster.load.submit(10, "good")
    await eventually(lambda: said(cluster, "submitter", events.DATABASE_LOST))
    await time_passes(2.0)
    assert not await cluster.states()
    assert not any(service.exits for service in cluster.services.values()), "nobody gave up"
    await asyncio.to_thread(orders_server.start)
    await asyncio.gather(*(service.ready() for service in cluster.services.values()))
    await cluster.assert_sound()


async def submit_later(cluster: Cluster, *, seconds: float) -> Order:
    """An accepted order that is due in so many seconds: the others may all be done before the fault is noticed."""
    due = datetime.now(UTC) + timedelta(seconds=seconds)
    return await cluster.client.submit("trade", {"ask": {}}, order_id="later", not_before=due)


@contextmanager
def frozen(server: PrivateDatabase) -> Iterator[None]:
    """Every process of the server is stopped in its tracks."""
    postmaster = psutil.Process(server.pid)
    processes = [postmaster, *postmaster.children()]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


async def all_held(cluster: Cluster) -> bool:
    """Whether there are held orders, and none is dispatched or could be claimed."""
    moving = "select count(*) from orders where ended_at is null and held_by is distinct from $1"
    held, others = await cluster.database.fetchval(HELD, AWAY), await cluster.database.fetchval(moving, AWAY)
    return bool(held > 0 and others == 0)


async def runs(cluster: Cluster, steps: dict[str, int]) -> bool:
    """Whether an agent has begun these steps of these orders."""
    rows = await cluster.database.fetch(
        "select o.order_id, o.step from orders o join inbox i on i.no = o.no and i.step_no = o.step"
        " where o.state = 'processing' and i.direction = 'do' and i.state = 'running'"
    )
    return steps.items() <= {row["order_id"]: row["step"] for row in rows}.items()
