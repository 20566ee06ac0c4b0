"""What a scheduler sent last is sent again soon after its lease lapsed, and never because it stopped in order."""

from __future__ import annotations

import asyncio
import signal
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.faults.cluster import Cluster
from tests.waiting import eventually_true
from triumvir.testing import Call

pytestmark = pytest.mark.slow
FORWARD = "%is brought forward"
PATIENT = {
    "step_timeout": "3000",
    "retry_interval": "600",
    "outbox_lease": "3000",
    "action_recovery_delay": "0.5",
}
"""Nothing but a revival sends a request again while the test runs."""


async def revivals(cluster: Cluster) -> int:
    found: int = await cluster.database.fetchval(
        "select count(*) from transitions where why like $1", FORWARD
    )
    return found


async def only_order(cluster: Cluster) -> Any:
    return await cluster.database.fetchrow("select * from orders")


async def test_a_request_that_died_with_its_scheduler_is_sent_again_after_the_recovery_delay(
    cluster: Cluster,
) -> None:
    cluster.tune(**PATIENT)
    await cluster.start()
    scheduler = await cluster.arm("scheduler", "scheduler.claim.after_commit", 1)
    order = await cluster.load.submit_one("good")
    assert await scheduler.dies()
    await order.result(timeout=90)
    first, again = await cluster.database.fetch(
        "select at from transitions where why = 'run reserve' or why like 'request sent again%' order by n"
    )
    assert again["at"] - first["at"] < timedelta(seconds=600), (
        "by the database's clock, long before its interval"
    )
    assert await revivals(cluster) == 1
    await cluster.database.execute(
        "update outbox set lease = clock_timestamp()"
    )  # the dead one's, to be swept now
    await cluster.assert_sound(ends=False)


async def test_a_scheduler_that_stops_in_order_revives_nothing(cluster: Cluster) -> None:
    cluster.tune(**PATIENT)
    called, go_on = asyncio.Event(), asyncio.Event()

    async def hold(call: Call) -> None:
        called.set()
        await go_on.wait()

    cluster.downstream.before = hold
    await cluster.start()
    order = await cluster.load.submit_one("good")
    await asyncio.wait_for(called.wait(), 90)
    before: datetime = (await only_order(cluster))["wake_at"]
    stopped = (await only_order(cluster))["touched_by"]
    assert await cluster.services["scheduler"].stop() == 0
    assert await cluster.database.fetchval("select count(*) from instances where id = $1", stopped) == 0
    passes = await cluster.add("supervisor", "second supervisor")
    await passes.ready()
    assert (await only_order(cluster))["wake_at"] == before
    go_on.set()
    await cluster.services["scheduler"].restart()
    await order.result(timeout=90)
    assert await revivals(cluster) == 0
    await cluster.assert_sound(ends=False)


async def test_a_scheduler_that_slept_past_its_lease_finds_its_order_revived_and_does_no_harm(
    cluster: Cluster,
) -> None:
    cluster.tune(**PATIENT)
    called, go_on = asyncio.Event(), asyncio.Event()

    async def hold(call: Call) -> None:
        called.set()
        await go_on.wait()

    cluster.downstream.before = hold
    await cluster.start()
    order = await cluster.load.submit_one("good")
    await asyncio.wait_for(called.wait(), 90)
    zombie = cluster.services["scheduler"]
    zombie.send(signal.SIGSTOP)

    async def is_revived() -> bool:
        return await revivals(cluster) == 1

    await eventually_true(is_revived, within=90, what="the revival")
    zombie.send(signal.SIGCONT)
    go_on.set()
    await order.result(timeout=90)
    await cluster.load.submit(8)
    await cluster.assert_sound(ends=False)
