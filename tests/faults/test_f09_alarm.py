"""F09: the broker takes no publishes for a while, for want of memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from tests.faults.broker.test_broker_faults import clear, raise_alarm
from tests.faults.cluster import Cluster
from tests.faults.pressure import more_ended, said, time_passes, under_load
from triumvir.local import PrivateServers
from triumvir.telemetry import events

pytestmark = pytest.mark.slow
SECONDS: Final = 15.0


@pytest.fixture
def watermark(private_servers: PrivateServers) -> Iterator[None]:
    """As it was, after the test."""
    yield
    clear(private_servers.broker)


@pytest.mark.usefixtures("watermark")
async def test_f09_an_alarm_holds_everything_up_and_loses_nothing(
    cluster: Cluster, private_servers: PrivateServers
) -> None:
    await cluster.start()
    async with under_load(cluster):
        await more_ended(cluster, 10)
        await asyncio.to_thread(raise_alarm, private_servers.broker)
        await time_passes(SECONDS / 3)
        accepted = len(cluster.load.accepted)
        await time_passes(SECONDS * 2 / 3)
        assert len(cluster.load.accepted) == accepted, "no submission was confirmed under the alarm"
        await asyncio.to_thread(clear, private_servers.broker)
        await more_ended(cluster, 10)
    await cluster.assert_sound()
    for name in ("scheduler", "agent"):
        assert said(cluster, name, events.PUBLISH_UNCONFIRMED), f"{name} was blocked"
