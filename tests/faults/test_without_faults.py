"""The harness itself: with no fault at all the auditor finds nothing."""

from __future__ import annotations

from tests.faults.cluster import Cluster


async def test_without_faults_the_mix_ends_as_it_must(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.load.submit(40)
    await cluster.assert_sound()
