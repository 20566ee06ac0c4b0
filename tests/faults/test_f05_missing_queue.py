"""F05: the queue of an agent is deleted while orders wait in it. They are sent again once it is back."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.faults.cluster import Cluster
from tests.faults.pressure import said
from tests.servers import ServerSet
from tests.waiting import eventually
from triumvir.broker import agent_queue
from triumvir.broker.admin import BrokerAdmin
from triumvir.local import PrivateServers
from triumvir.settings import Settings
from triumvir.telemetry import events

pytestmark = pytest.mark.slow
QUEUE: Final = agent_queue("goods")
LONG_LEASE: Final = "20"
"""So that the scheduler does not take the sleeping agent for gone, and goes on sending to it."""


async def test_f05_orders_whose_agent_queue_was_deleted_are_delivered_when_it_is_back(
    private_servers: PrivateServers, private_settings: Settings, logs: Path
) -> None:
    async with Cluster(private_settings, logs, instance_lease=LONG_LEASE) as cluster:
        await cluster.start()
        agent = cluster.services["agent"]
        agent.send(signal.SIGSTOP)
        await cluster.load.submit(60, "good", "refused")
        lost = await eventually(lambda: waiting(cluster), what=f"requests that wait in {QUEUE}")
        await asyncio.to_thread(
            ServerSet.of(private_servers).manage, "DELETE", f"queues/{cluster.vhost}/{QUEUE}"
        )
        await eventually(lambda: returned(cluster), what="requests that came back")
        assert await cluster.database.fetchval("select count(*) from outbox") > 0, "they are still to be sent"
        await eventually(lambda: any(cluster.alerts), within=60, what="an alert of orders that nobody began")
        assert lost > 0
        assert cluster.load.ended == 0
        agent.send(signal.SIGKILL)
        await cluster.assert_sound()


async def waiting(cluster: Cluster) -> int:
    """Requests in the agent's queue that the agent has not been given."""
    async with BrokerAdmin(cluster.settings.management_url) as admin:
        return (await admin.queue_depths(cluster.vhost))[QUEUE].ready


def returned(cluster: Cluster) -> int:
    lines = said(cluster, "scheduler", events.MESSAGE_RETURNED)
    return sum(line["queue"] == QUEUE for line in lines)
