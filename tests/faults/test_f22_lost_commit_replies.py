"""F22: the connection is lost after COMMIT was sent, on every path that writes; the commit has happened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest

from tests.faults.cluster import Cluster
from tests.faults.commit_proxy import CommitProxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SINGLE: Final = frozenset({"triumvir agent begins", "triumvir agent finishes", "triumvir agent calls"})
"""Here one statement is the whole transaction."""
PATHS: Final = (
    "triumvir submitter door",
    "triumvir scheduler claims",
    "triumvir scheduler replies",
    "triumvir scheduler timers",
    "triumvir scheduler commands",
    "triumvir supervisor overdue",
    "triumvir operation",
    "triumvir agent inbox",
    *sorted(SINGLE),
)
TIMES: Final = 3
WAVES: Final = 12
ORDERS: Final = 9
CROWDED: Final = {"triumvir agent inbox": 60}
"""Orders of a wave on the path that wants some requests to begin while others finish."""


@pytest.fixture
async def proxy(cluster: Cluster) -> AsyncIterator[CommitProxy]:
    proxy = CommitProxy(cluster.settings.database_url, SINGLE)
    await proxy.start()
    yield proxy
    await proxy.stop()


async def test_f22_a_commit_whose_answer_is_lost_is_neither_lost_nor_done_twice(
    cluster: Cluster, proxy: CommitProxy
) -> None:
    await cluster.start(TRIUMVIR_DATABASE_URL=proxy.url)
    for path in PATHS:
        proxy.swallow(path, TIMES)
        for _ in range(WAVES):
            await cluster.load.submit(CROWDED.get(path, ORDERS))
            await cluster.settle()
            if proxy.swallowed[path] == TIMES:
                break
        assert proxy.swallowed[path] == TIMES, f"{path}: {proxy.swallowed}; seen {sorted(proxy.seen)}"
    await cluster.assert_sound()
