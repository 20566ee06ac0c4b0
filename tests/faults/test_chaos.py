"""Everything at once: two of each service, messages doubled, commit answers lost, kills, sleeps, restarts by chance."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import AsyncIterator
from typing import Final

import pytest

from tests.faults.cluster import STRAIGHT, Cluster
from tests.faults.commit_proxy import CommitProxy
from tests.faults.test_f22_lost_commit_replies import PATHS, SINGLE
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
ROUNDS: Final = 12
SEED: Final = int(os.environ.get("FAULT_SEED", "1"))
FATE: Final = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)


@pytest.fixture
async def proxy(cluster: Cluster) -> AsyncIterator[CommitProxy]:
    proxy = CommitProxy(cluster.settings.database_url, SINGLE)
    await proxy.start()
    yield proxy
    await proxy.stop()


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
async def test_whatever_happens_nothing_is_lost_doubled_or_stuck(
    cluster: Cluster, proxy: CommitProxy, seed: int
) -> None:
    chance = random.Random(seed)
    env = {"FAULTS_TAP_LOG": str(cluster.folder / "tap.log"), "TRIUMVIR_DATABASE_URL": proxy.url}
    for place in ("first", "second"):
        for kind in STRAIGHT:
            await cluster.add(kind, f"{place} {kind}", launcher="tests.faults.tap", **env)
    for service in cluster.services.values():
        await service.ready()
    hit = [await strike(cluster, proxy, chance) for _ in range(ROUNDS)]
    for service in cluster.services.values():
        service.send(signal.SIGCONT)
    await cluster.assert_sound(within=120, ends=False)
    exits = sum(len(service.exits) for service in cluster.services.values())
    assert exits == sum(fate is not signal.SIGSTOP for fate in hit)
    assert proxy.swallowed.total() > 0


async def strike(cluster: Cluster, proxy: CommitProxy, chance: random.Random) -> signal.Signals:
    """Load, one service struck, one commit unanswered; who slept before wakes up when all others have gone on."""
    name, fate = chance.choice(list(cluster.services)), chance.choice(FATE)
    service = cluster.services[name]
    proxy.swallow(chance.choice(PATHS), 1)
    await cluster.load.submit(8)
    before = len(service.exits)
    service.send(fate)
    await cluster.load.submit(8)
    await cluster.settle(within=8)
    service.send(signal.SIGCONT)
    if fate is not signal.SIGSTOP:
        await eventually(lambda: len(service.exits) > before, within=60, what=f"end of {name}")
        await service.ready()
    return fate
