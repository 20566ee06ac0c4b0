"""F02: the broker says no more, and nobody is told: no connection is closed, no byte comes. Then it comes back."""

from __future__ import annotations

from functools import partial
from typing import Final

import pytest

from tests.faults.cluster import STRAIGHT, Cluster
from tests.faults.pressure import more_ended, said
from tests.integration.broker.proxy import proxied
from tests.waiting import eventually, eventually_true
from triumvir.broker.connection import HEARTBEAT
from triumvir.telemetry import events

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
PATIENCE: Final = 12 * HEARTBEAT
"""Seconds; a silent broker is given up after about three heartbeats, on a machine with time to spare."""


async def test_f02_a_broker_that_falls_silent_is_given_up_by_heartbeat_and_what_was_unsent_is_sent_later(
    cluster: Cluster,
) -> None:
    async with proxied(cluster.settings.broker_url) as proxy:
        await cluster.start(TRIUMVIR_BROKER_URL=proxy.url)
        await cluster.load.submit(24, "good", "slow", "refused")
        await more_ended(cluster, 6)
        proxy.blackhole()
        await cluster.load.submit(12, "good")
        for name in STRAIGHT:
            given_up = partial(said, cluster, name, events.BROKER_LOST)
            await eventually(given_up, within=PATIENCE, what=f"{name} to give the broker up")
        await eventually_true(lambda: _waits_to_be_sent(cluster), within=PATIENCE, what="unsent messages")
        unsent = await cluster.database.fetchval("select count(*) from orders where ended_at is null")
        assert unsent > 0, "all was over before the fault"
        proxy.heal()
        await more_ended(cluster, 12, within=PATIENCE)
        await cluster.assert_sound()
    for name in STRAIGHT:
        assert said(cluster, name, events.BROKER_CONNECTED), f"{name} came back unaided"
        assert cluster.services[name].exits == [], f"{name} lived through it"


async def _waits_to_be_sent(cluster: Cluster) -> bool:
    return bool(await cluster.database.fetchval("select exists (select from outbox)"))
