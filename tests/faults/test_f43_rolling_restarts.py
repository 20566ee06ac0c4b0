"""F43: every service is told to stop, again and again, under load."""

from __future__ import annotations

import signal
from functools import partial
from typing import Final

import pytest

from tests.faults.cluster import STRAIGHT, Cluster
from tests.faults.service_process import ServiceProcess
from tests.waiting import eventually
from triumvir.telemetry import events

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
    cluster.expected_exits.add(128 + signal.SIGTERM)
    await cluster.load.submit(12, "slow", "good")
    for service in cluster.services.values():
        service.send(signal.SIGTERM)
        await eventually(partial(is_draining, service), what=f"drain of {service.name}")
        service.send(signal.SIGTERM)
    await cluster.load.submit(12)
    for service in cluster.services.values():
        await eventually(partial(bool, service.exits), what=f"end of {service.name}")
        await service.ready()
    assert any(128 + signal.SIGTERM in service.exits for service in cluster.services.values())
    await cluster.assert_sound()


def is_draining(service: ServiceProcess) -> bool:
    """Whether it has begun to, or is through with it."""
    return bool(service.exits) or f'"{events.SERVICE_DRAINING}"' in service.log.read_text()
