"""The network between the services and the broker breaks: connections are reset, or go silent for some seconds."""

from __future__ import annotations

import pytest

from tests.faults.cluster import STRAIGHT, Cluster
from tests.faults.pressure import more_ended, said, time_passes, under_load
from tests.integration.broker.proxy import proxied
from triumvir.telemetry import events

pytestmark = pytest.mark.slow
SECONDS = 6.0


async def test_a_broker_that_is_cut_off_for_seconds_under_load_loses_no_order(cluster: Cluster) -> None:
    """No byte passes for a while; then every connection is reset."""
    async with proxied(cluster.settings.broker_url) as proxy:
        await cluster.start(TRIUMVIR_BROKER_URL=proxy.url)
        async with under_load(cluster):
            for _ in range(2):
                await more_ended(cluster, 10)
                proxy.blackhole()
                await time_passes(SECONDS)
                proxy.cut()
                proxy.heal()
            await more_ended(cluster, 10)
        await cluster.assert_sound()
        for name in STRAIGHT:
            assert len(said(cluster, name, events.BROKER_LOST)) >= 2, f"{name} lost the broker"
