"""F35: every process dies at every named crash point, under load, and nothing is lost, doubled or stuck."""

from __future__ import annotations

import os
import random
from typing import Final

import pytest

from tests.faults.cluster import Cluster
from tests.faults.shared import SharedCluster
from triumvir.runtime.crash import CRASH_POINTS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

SEED: Final = int(os.environ.get("FAULT_SEED", "1"))
SAMPLE: Final = 3
LATER: Final = {"submitter": 2, "scheduler": 5, "outbox": 4, "agent": 6, "supervisor": 3}
"""Which time a point is reached the second time it is tested, by the first word of its name."""
HOSTS: Final = {"outbox": "scheduler"}
LEFT_BY: Final = {"outbox.after_sweep_publish": "submitter.after_commit"}
"""What has to crash first, so that there is something to do at a point."""


def cases() -> list[object]:
    """Every point, the first time it is reached and a later time; all but a seeded sample are slow."""
    sample = random.Random(SEED).sample(CRASH_POINTS, SAMPLE)
    every = [(point, n) for point in CRASH_POINTS for n in (1, LATER[point.split(".")[0]])]
    every = [(point, 1 if point in LEFT_BY else n) for point, n in every]
    return [
        pytest.param(point, n, id=f"{point}-{n}", marks=() if point in sample and n > 1 else pytest.mark.slow)
        for point, n in dict.fromkeys(every)
    ]


@pytest.mark.parametrize("point, n", cases())
async def test_f35_a_process_that_dies_at(shared_cluster: SharedCluster, point: str, n: int) -> None:
    async with shared_cluster.taken() as cluster:
        await crash(cluster, point, n)
        await cluster.assert_sound()


async def crash(cluster: Cluster, point: str, n: int) -> None:
    """Have one process die there, under load. It is started again unarmed, as whoever supervises it would."""
    before = cluster.crashes(point)
    armed = [(point, n), *((left_by, 1) for at, left_by in LEFT_BY.items() if at == point)]
    services = []
    for at, count in armed:
        kind = at.split(".")[0]
        services.append(await cluster.arm(HOSTS.get(kind, kind), at, count))
    victim = services[0]
    for _ in range(12):
        await cluster.load.submit(12)
        if await victim.dies(within=3.0):
            break
    assert cluster.crashes(point) == before + 1, f"nobody died at {point}"
