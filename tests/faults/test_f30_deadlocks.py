"""F30: batches that want the same rows in opposite order, and a deadlock that a foreign session brings about."""

from __future__ import annotations

import asyncio
import random
import signal
from typing import Final
from uuid import uuid4

import asyncpg

from tests.faults.cluster import Cluster
from tests.faults.pressure import said
from tests.faults.test_f27_claims import connected, insert_orders
from tests.waiting import eventually, eventually_true
from triumvir.lifecycle import Event, OperatorAsked
from triumvir.runtime.decisions import Decider
from triumvir.runtime.definitions import Definitions
from triumvir.settings import Settings
from triumvir.store import orders
from triumvir.store.session import Session
from triumvir.telemetry import events

WORKERS: Final = 6
ROUNDS: Final = 12
EACH: Final = 40
DEADLOCKS: Final = "select deadlocks from pg_stat_database where datname = current_database()"
WAITS: Final = (
    "select exists (select from pg_stat_activity where datname = current_database()"
    " and wait_event_type = 'Lock' and application_name = 'triumvir scheduler commands')"
)


async def test_f30_batches_that_want_the_same_orders_in_any_order_never_deadlock(
    private_settings: Settings,
) -> None:
    await insert_orders(private_settings)
    database = await connected(private_settings)
    nos = [row["no"] for row in await database.fetch("select no from orders order by no limit $1", 2 * EACH)]
    barrier = asyncio.Barrier(WORKERS)
    await asyncio.gather(*(worker(private_settings, nos, seed, barrier) for seed in range(WORKERS)))
    written = await database.fetchval("select count(*) from transitions where why ~ '^paused? by '")
    assert written == WORKERS * ROUNDS * EACH, "every batch was applied once, and none of it is lost"
    assert await deadlocks(database) == 0
    await database.close()


async def worker(settings: Settings, nos: list[int], seed: int, barrier: asyncio.Barrier) -> None:
    """Pauses and unpauses the half of the orders, named in an order of its own, in step with the others."""
    session, chance = Session(settings, f"batch {seed}"), random.Random(seed)
    decider = Decider("scheduler", uuid4(), settings, Definitions())
    try:
        for _ in range(ROUNDS):
            mine = chance.sample(nos, EACH)
            asked: dict[int, list[Event]] = {
                no: [OperatorAsked("pause", str(seed), "deadlock")] for no in mine
            }
            await barrier.wait()
            async with session.transaction() as connection:
                assert sorted((await orders.lock(connection, mine)).histories) == sorted(mine)
                await decider.apply(connection, asked)
    finally:
        await session.close()


async def test_f30_a_batch_that_is_the_victim_of_a_deadlock_is_run_again_as_a_whole(cluster: Cluster) -> None:
    """Somebody in psql locks the orders the other way round, and is not the one whom Postgres picks."""
    name = await cluster.database.fetchval("select current_database()")
    await cluster.database.execute(f"alter database {name} set deadlock_timeout = '2s'")
    await cluster.start("submitter", "scheduler", "supervisor")
    await cluster.load.submit(2, "good")
    await eventually_true(lambda: two_are_held(cluster), within=90, what="two orders that wait for an agent")
    first, second = [row["no"] for row in await cluster.database.fetch("select no from orders order by no")]
    scheduler = cluster.services["scheduler"]
    foreign = await connected(cluster.settings)
    await foreign.execute("set deadlock_timeout = '1h'")
    scheduler.send(signal.SIGSTOP)
    await ask_to_cancel_both(cluster)
    held = foreign.transaction()
    await held.start()
    await foreign.execute("select from orders where no = $1 for update", second)
    scheduler.send(signal.SIGCONT)
    await eventually_true(lambda: cluster.database.fetchval(WAITS), within=90, what="the batch at the second")
    await foreign.execute(
        "select from orders where no = $1 for update", first
    )  # once the batch lets go of it
    assert await cluster.database.fetchval("select bool_and(taken_at is null) from commands")
    await held.rollback()
    await foreign.close()
    await eventually_true(lambda: both_cancelled(cluster), within=90, what="the whole batch")
    repeated = said(
        cluster, "scheduler", events.BATCH_REPEATED
    )  # once more if it comes first to the first order again
    assert {(each["batch"], each["items"]) for each in repeated} == {("commands", 2)}
    assert all("deadlock detected" in each["error"] for each in repeated)
    await eventually(lambda: deadlocks(cluster.database), what="the deadlock in the statistics")
    await cluster.start("agent")
    await cluster.load.submit(8, "good", "refused")
    await cluster.assert_sound(ends=False)


async def two_are_held(cluster: Cluster) -> bool:
    held: int = await cluster.database.fetchval("select count(*) from orders where held_by is not null")
    return held == 2


async def ask_to_cancel_both(cluster: Cluster) -> None:
    await cluster.database.execute(
        "insert into commands (client, order_id, message_id, kind)"
        " select client, order_id, 'cancel ' || no, 'cancel' from orders"
    )


async def both_cancelled(cluster: Cluster) -> bool:
    rows = await cluster.database.fetch("select state from orders")
    return [row["state"] for row in rows] == ["cancelled", "cancelled"]


async def deadlocks(database: asyncpg.Connection) -> int:
    found: int = await database.fetchval(DEADLOCKS)
    return found
