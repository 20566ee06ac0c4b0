"""F23: a task is cancelled while it connects, or while its COMMIT or the answer is on its way: nobody knows then."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final
from uuid import uuid4

import pytest

from tests.faults.cluster import Cluster
from tests.faults.commit_proxy import CommitProxy, Moment
from tests.waiting import eventually_true
from triumvir.lifecycle import Claimed
from triumvir.runtime.decisions import Decider
from triumvir.runtime.definitions import Definitions
from triumvir.settings import Settings
from triumvir.store.session import Session
from triumvir.store.statements import statement

NAME: Final = "triumvir claims"
MOMENTS: Final[tuple[Moment, ...]] = ("connecting", "commit sent", "commit answered")
BATCH: Final = 2


@pytest.fixture
async def proxy(cluster: Cluster) -> AsyncIterator[CommitProxy]:
    proxy = CommitProxy(cluster.settings.database_url)
    await proxy.start()
    yield proxy
    await proxy.stop()


async def test_f23_a_sample_of_cancelled_commits(cluster: Cluster, proxy: CommitProxy) -> None:
    await cancel_claims(cluster, proxy, 4)


@pytest.mark.slow
async def test_f23_a_hundred_cancelled_commits_of_each_kind(cluster: Cluster, proxy: CommitProxy) -> None:
    await cancel_claims(cluster, proxy, 100)


async def cancel_claims(cluster: Cluster, proxy: CommitProxy, times: int) -> None:
    """Claims of a scheduler, each cut off; then real services find the orders, claimed or not, and end them all."""
    await cluster.start("submitter")
    await cluster.load.submit(len(MOMENTS) * times * BATCH, "good")
    await eventually_true(lambda: all_there(cluster), within=90, what="the orders")
    claims = Claims(Settings(**{**cluster.settings.model_dump(), "database_url": proxy.url}))
    for _ in range(times):
        for moment in MOMENTS:
            before = await claimed(cluster)
            assert await claims.cut_off(proxy, moment), f"cancelled: {moment}"
            await eventually_true(lambda: no_session_left(cluster), within=60, what=f"no session, {moment}")
            claims.landed[moment] += await claimed(cluster) - before
    await claims.session.close()
    assert claims.landed["connecting"] == 0
    assert claims.landed["commit answered"] == times * BATCH, "cancelled, and committed all the same"
    assert claims.landed["commit sent"] % BATCH == 0, "each claim as a whole or not at all"
    await cluster.start("scheduler", "agent", "supervisor")
    await cluster.assert_sound()


class Claims:
    """A scheduler's claims in this process. What it committed it never sends: it does not know that it did."""

    def __init__(self, settings: Settings) -> None:
        self.session = Session(settings, NAME.removeprefix("triumvir "))
        self.landed: Counter[Moment] = Counter()
        self._decider = Decider("scheduler", uuid4(), settings, Definitions())

    async def cut_off(self, proxy: CommitProxy, moment: Moment) -> bool:
        """One claim that is cancelled at this moment; whether it was."""
        task = asyncio.create_task(self._claim())
        proxy.hook(NAME, moment, task.cancel)
        await asyncio.wait([task])
        return task.cancelled()

    async def _claim(self) -> None:
        async with self.session.transaction() as connection:
            rows = await statement("claim_candidates").rows(connection, most=BATCH)
            await self._decider.apply(connection, {row["no"]: [Claimed()] for row in rows})


async def all_there(cluster: Cluster) -> bool:
    there: int = await cluster.database.fetchval("select count(*) from orders")
    return there == len(cluster.load.accepted)


async def claimed(cluster: Cluster) -> int:
    """How many orders are claimed; each has its step, and each batch its outbox row."""
    row = await cluster.database.fetchrow(
        "select (select count(*) from orders where state = 'processing') as claimed,"
        " (select count(*) from steps) as steps, (select count(*) from outbox where refs like '%request%') as batches"
    )
    assert row is not None
    assert row["claimed"] == row["steps"] == row["batches"] * BATCH
    return int(row["claimed"])


async def no_session_left(cluster: Cluster) -> bool:
    """The one that was cut off is gone, with whatever it had open."""
    left: bool = await cluster.database.fetchval(
        "select exists (select from pg_stat_activity where datname = current_database() and application_name = $1)",
        NAME,
    )
    return not left
