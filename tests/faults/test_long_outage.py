"""An outage of the database so long that services give up: they end, are started again and again, and go on after it.

(Without a broker a service waits; only the database makes its loops fail.)
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from tests.faults.cluster import STRAIGHT, Cluster
from tests.faults.pressure import more_ended, said, under_load
from tests.waiting import eventually
from triumvir.local import PrivateServers
from triumvir.runtime.service import EXIT_FAILED
from triumvir.runtime.watchdog import EXIT_CODE as EXIT_STALLED
from triumvir.settings import Settings
from triumvir.telemetry import events

pytestmark = pytest.mark.slow
WATCHDOG: Final = "6"
PATIENCE: Final = "6"
"""Attempts of a step: the outage costs one, and flaky orders fail on their own."""


async def test_services_that_give_up_in_a_long_outage_go_on_once_it_is_over(
    private_servers: PrivateServers, private_settings: Settings, logs: Path
) -> None:
    async with Cluster(private_settings, logs, watchdog_timeout=WATCHDOG, max_failures=PATIENCE) as cluster:
        cluster.expected_exits |= {EXIT_STALLED, EXIT_FAILED}
        await cluster.start()
        async with under_load(cluster):
            await more_ended(cluster, 10)
            await asyncio.to_thread(private_servers.database.stop)
            await eventually(lambda: all(gave_up(cluster)), within=60, what="that every service gives up")
            await asyncio.to_thread(private_servers.database.start)
            await more_ended(cluster, 10)
        await cluster.reconnect()
        await cluster.assert_sound()
        assert all(said(cluster, name, events.SERVICE_STALLED) for name in STRAIGHT)


def gave_up(cluster: Cluster) -> list[bool]:
    """Of each service, whether it ended and could not start again."""
    return [{EXIT_STALLED, EXIT_FAILED} <= set(cluster.services[name].exits) for name in STRAIGHT]
