"""Two databases without a common commit: deaths between the two writes, and the same order from everywhere at once."""

from __future__ import annotations

import asyncpg
import pytest

from tests.faults.cluster import Cluster

pytestmark = pytest.mark.timeout(180)


async def test_with_two_databases_nothing_is_different(two_databases: Cluster) -> None:
    cluster = two_databases
    await cluster.start()
    await cluster.load.submit(40)
    await cluster.assert_sound()
    assert await cluster.database.fetchval("select count(*) from order_documents") == 0
    there = await asyncpg.connect(cluster.settings.orders_dsn)
    assert await there.fetchval("select count(*) from triumvir.order_documents") == 40
    await there.close()
