"""F27: eight schedulers claim the same thousand orders at the same moment."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final
from uuid import uuid4

import asyncpg

from tests.faults.agents import TRADE
from triumvir.lifecycle import Claimed
from triumvir.runtime.decisions import Decider
from triumvir.runtime.definitions import Definitions
from triumvir.settings import Settings
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
    database = await connected(private_settings)
    try:
        locks = await database.fetchval(
            "select count(distinct locked_by) from orders where state = 'processing'"
        )
        rows = await database.fetch(
            "select no, count(*) from transitions where to_state = 'processing' group by 1"
        )
        assert locks == ORDERS
        assert {row["count"] for row in rows} == {1}
        assert await database.fetchval("select max(attempt) from orders") == 1
    finally:
        await database.close()


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


async def insert_orders(settings: Settings) -> None:
    database = await connected(settings)
    try:
        await apply_workflow(database, TRADE)
        await database.execute(
            "insert into order_documents (client, order_id, payload, digest)"
            " select 'shop-' || n % 7, 'order-' || n, '{}', sha256('x') from generate_series(1, $1::int) n",
            ORDERS,
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
