"""F27: eight schedulers claim the same thousand orders at the same moment."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from typing import Final
from uuid import uuid4

import asyncpg

from tests.faults.agents import TRADE
from triumvir.lifecycle import Claimed
from triumvir.runtime.batches import FEW
from triumvir.runtime.decisions import Decider
from triumvir.runtime.definitions import Definitions
from triumvir.settings import Settings
from triumvir.store import orders
from triumvir.store.operators import apply_workflow
from triumvir.store.session import Session
from triumvir.store.statements import statement

ORDERS: Final = 1000
SCHEDULERS: Final = 8
BATCH: Final = 40


async def test_f27_each_order_is_claimed_once(private_settings: Settings) -> None:
    await insert_orders(private_settings)
    barrier = asyncio.Barrier(SCHEDULERS)
    claims = await asyncio.gather(*(claim_all(private_settings, barrier) for _ in range(SCHEDULERS)))
    taken = Counter(no for mine in claims for no in mine)
    assert len(taken) == ORDERS
    assert set(taken.values()) == {1}
    assert sum(bool(mine) for mine in claims) > 1, "several of them claimed"
    await assert_claimed_once(private_settings, ORDERS)


async def test_f27_orders_that_several_were_told_of_are_claimed_once_without_a_lock(
    private_settings: Settings,
) -> None:
    await insert_orders(private_settings)
    barrier = asyncio.Barrier(SCHEDULERS)
    claims = await asyncio.gather(
        *(claim_named(private_settings, barrier, seed) for seed in range(SCHEDULERS))
    )
    taken = Counter(no for mine, _ in claims for no in mine)
    assert set(taken.values()) == {1}
    assert sum(refused for _, refused in claims) > 0, "some wanted the same order"
    await assert_claimed_once(private_settings, len(taken))


async def assert_claimed_once(settings: Settings, orders: int) -> None:
    """So many orders were claimed, each by one attempt, and every claim is whole."""
    database = await connected(settings)
    try:
        locks = await database.fetchval(
            "select count(distinct locked_by) from orders where state = 'processing'"
        )
        rows = await database.fetch(
            "select no, count(*) from transitions where to_state = 'processing' group by 1"
        )
        assert locks == len(rows) == await database.fetchval("select count(*) from steps") == orders
        assert {row["count"] for row in rows} == {1}
        assert await database.fetchval("select max(attempt) from orders") == 1
    finally:
        await database.close()


async def claim_named(settings: Settings, barrier: asyncio.Barrier, seed: int) -> tuple[list[int], int]:
    """What one scheduler claims of orders it was told of, a few at a time, as others are told of some of them; and how
    often it was refused.
    """
    session, choose = Session(settings, "claims"), random.Random(seed)
    decider = Decider("scheduler", uuid4(), settings, Definitions())
    mine: list[int] = []
    refused = 0
    try:
        async with session.connection() as connection:
            nos = [row["no"] for row in await connection.fetch("select no from orders order by no")]
        for first in range(0, len(nos), BATCH):
            await barrier.wait()
            named = choose.sample(nos[first : first + BATCH], FEW)
            async with session.connection() as connection:
                found = await orders.read(connection, named)
                assert found is not None
                new = {no: record for no, record in found.records.items() if record.state == "pending"}
                if not new:
                    continue
                found = replace(found, records=new)
                applied = await decider.decide(connection, found, {no: [Claimed()] for no in new})
                try:
                    await decider.write(connection, applied)
                except asyncpg.SerializationError:
                    refused += 1
                else:
                    mine += new
    finally:
        await session.close()
    return mine, refused


async def claim_all(settings: Settings, barrier: asyncio.Barrier) -> list[int]:
    """What one scheduler claims, in step with the others until nothing is left."""
    session = Session(settings, "claims")
    decider = Decider("scheduler", uuid4(), settings, Definitions())
    mine: list[int] = []
    try:
        async with session.connection():
            pass
        for _ in range(ORDERS // BATCH):
            await barrier.wait()
            async with session.transaction() as connection:
                rows = await statement("claim_candidates").rows(connection, most=BATCH)
                nos = [row["no"] for row in rows]
                if nos:
                    await decider.apply(connection, {no: [Claimed()] for no in nos})
            mine += nos
    finally:
        await session.close()
    return mine


async def insert_orders(settings: Settings, count: int = ORDERS) -> None:
    database = await connected(settings)
    try:
        await apply_workflow(database, TRADE)
        await database.execute(
            "insert into order_documents (client, order_id, payload, digest)"
            " select 'shop-' || n % 7, 'order-' || n, '{}', sha256('x') from generate_series(1, $1::int) n",
            count,
        )
        await database.execute(
            "insert into orders (client, order_id, workflow, version, digest, rank, status_queue, sequence, history)"
            " select client, order_id, 'trade', 1, digest, 0, 'status.' || client, 1, 1 from order_documents"
        )
    finally:
        await database.close()


async def connected(settings: Settings) -> asyncpg.Connection:
    return await asyncpg.connect(
        settings.database_url, server_settings={"search_path": settings.database_schema}
    )
