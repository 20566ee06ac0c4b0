"""F43: every service is told to stop, again and again, under load."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

import pytest

from tests.faults.cluster import STRAIGHT, Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
ROUNDS: Final = 5


async def test_f43_rolling_restarts_under_load_lose_nothing(cluster: Cluster) -> None:
    await cluster.start()
    codes = []
    for _ in range(ROUNDS):
        for kind in STRAIGHT:
            await cluster.load.submit(6)
            codes.append(await cluster.services[kind].stop(signal.SIGTERM))
            await cluster.services[kind].restart()
            await cluster.services[kind].ready()
    assert codes == [0] * ROUNDS * len(STRAIGHT), "each drained in good order"
    await cluster.assert_sound()


async def test_f43_a_second_sigterm_ends_it_at_once_and_is_as_safe_as_a_kill(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.load.submit(12, "slow", "good")
    for kind in STRAIGHT:
        service = cluster.services[kind]
        service.restarting = True
        service.send(signal.SIGTERM)
        await asyncio.sleep(0)
        service.send(signal.SIGTERM)
    await cluster.load.submit(12)
    await asyncio.gather(*(service.ready() for service in cluster.services.values()))
    await cluster.assert_sound()
