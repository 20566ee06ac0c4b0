"""F35: every process dies twice at every named crash point, under load, and nothing is lost, doubled or stuck."""

from __future__ import annotations

import os
import random
import secrets
from typing import Final

import pytest

from tests.faults.cluster import Cluster
from tests.faults.letters import late, replay
from tests.faults.shared import SharedCluster
from triumvir.runtime.crash import CRASH_POINTS

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEED: Final = int(os.environ.get("FAULT_SEED", "1"))
SAMPLE: Final = 3
LATER: Final = {"submitter": 2, "scheduler": 5, "outbox": 4, "agent": 6, "supervisor": 3}
"""Which time a point is reached when the process dies there again, by the first word of its name."""
SELDOM: Final = {"scheduler.command": 2}
"""By the beginning of its name, where that takes too long."""
HOSTS: Final = {"outbox": "scheduler"}
LEFT_BY: Final = {"outbox.after_sweep_publish": "submitter.after_commit"}
"""What has to crash once, so that there is something to do at a point; what it left is swept in every life."""
WAVES: Final = 60
"""At most; some ten where nothing else runs."""
ELSEWHERE: Final = {
    "agent.early.before_ack",
    "agent.early.after_ack",
    "agent.replied.before_commit",
    "agent.replied.after_commit",
    "agent.sweep.after_commit",
    "agent.sweep.after_publish",
    "submitter.documents.after_commit",
    "supervisor.check.before_commit",
    "supervisor.check.after_commit",
    "supervisor.purge.before_commit",
    "supervisor.purge.after_commit",
    "supervisor.purge.documents",
}
"""Of long steps: see test_early_acks.py; between two databases: see test_two_databases.py; in a purge: see
test_f34_purge.py.
"""
POINTS: Final = [point for point in CRASH_POINTS if point not in ELSEWHERE]


def cases() -> list[object]:
    """Every point; all but a seeded sample are slow."""
    sample = random.Random(SEED).sample(POINTS, SAMPLE)
    return [
        pytest.param(point, id=point, marks=() if point in sample else pytest.mark.slow) for point in POINTS
    ]


@pytest.mark.parametrize("point", cases())
async def test_f35_a_process_that_dies_twice_at(shared_cluster: SharedCluster, point: str) -> None:
    """The first time the point is reached, and in its next life at a later time."""
    async with shared_cluster.taken() as cluster:
        await crash_twice(cluster, point)
        await cluster.assert_sound()


async def crash_twice(cluster: Cluster, point: str) -> None:
    """Under load. It is started again, in the end unarmed, as whoever supervises it would."""
    before = cluster.crashes(point)
    kind = point.split(".")[0]
    if left_by := LEFT_BY.get(point):
        await cluster.arm(left_by.split(".")[0], left_by, 1, 2, 3)  # three times the same message: quarantine
        victim = await cluster.arm(HOSTS[kind], point, 1, 1)
    else:
        later = SELDOM.get(point.rpartition(".")[0], LATER[kind])
        victim = await cluster.arm(HOSTS.get(kind, kind), point, 1, later)
    for _ in range(WAVES):
        await cluster.load.submit(8)
        if "command" in point:
            await cluster.load.submit(4, "cancelled")
        if "replay" in point:
            await replay(cluster, await late(cluster, f"late-{secrets.token_hex(4)}", 4))
        if await victim.dies(times=2, within=2.0):
            break
    assert cluster.crashes(point) == before + 2, f"nobody died twice at {point}"
