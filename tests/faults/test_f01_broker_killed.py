"""F01: the broker is killed twice under load. Nothing accepted is lost, everybody comes back unaided."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.broker.test_broker_faults import write_down
from tests.faults.cluster import STRAIGHT, Cluster
from tests.faults.pressure import more_ended, said, under_load
from triumvir.local import PrivateServers
from triumvir.settings import Settings
from triumvir.telemetry import events

pytestmark = pytest.mark.slow
KILLS = 2


@pytest.mark.parametrize("queues", ["quorum", "classic"])
async def test_f01_a_broker_killed_under_load_and_restarted_loses_no_order(
    private_servers: PrivateServers, private_settings: Settings, logs: Path, queues: str
) -> None:
    broker = private_servers.broker
    settings = private_settings.model_copy(update={"quorum_queues": queues == "quorum"})
    async with Cluster(settings, logs) as cluster:
        await cluster.start()
        await asyncio.to_thread(write_down, broker)
        async with under_load(cluster):
            for _ in range(KILLS):
                await more_ended(cluster, 10)
                killed = broker.pid
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.start)
                assert broker.pid != killed
                await more_ended(cluster, 5)
        await cluster.assert_sound()
        for name in STRAIGHT:
            assert len(said(cluster, name, events.BROKER_LOST)) >= KILLS, f"{name} lost the broker"
