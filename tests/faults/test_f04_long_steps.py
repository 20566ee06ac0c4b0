"""F04: a step takes longer than the broker lets a delivery go unacknowledged, so it is taken away and comes again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

import pytest

from tests.faults.broker.test_broker_faults import limit_handling
from tests.faults.cluster import Cluster
from tests.faults.pressure import said
from triumvir.broker import agent_queue
from triumvir.local import PrivateServers
from triumvir.telemetry import events

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
LONG: Final = {"charge": {"slow": 9.0}}
ORDERS: Final = 4


@pytest.fixture
async def impatient(private_servers: PrivateServers) -> AsyncIterator[None]:
    """The broker waits three seconds for an acknowledgement instead of half an hour, and looks twice a second."""
    await asyncio.to_thread(limit_handling, private_servers.broker, "3000", "500")
    yield
    await asyncio.to_thread(limit_handling, private_servers.broker, "1800000", "60000")


@pytest.mark.usefixtures("impatient")
async def test_f04_a_step_that_outlives_its_delivery_is_called_once_and_finishes(cluster: Cluster) -> None:
    cluster.tune(step_timeout="90", retry_interval="60")
    await cluster.start()
    orders = [await cluster.load.submit_one(f"long-{n}", LONG) for n in range(ORDERS)]
    for order in orders:
        await order.result(timeout=120)
    queues = {line["queue"] for line in said(cluster, "agent", events.CONSUMER_RESTORED)}
    assert agent_queue("money") in queues, "the broker took the deliveries away"
    await cluster.assert_sound()
    called = Counter(call.order for call in cluster.downstream.calls() if call.step == "charge")
    assert called == {order.key: 1 for order in orders}
    assert set((await cluster.states()).values()) == {"processed"}
    assert await cluster.database.fetchval("select sum(failure_count) from orders") == 0
