"""What a scheduler sent last is sent again soon after its lease lapsed, and never because it stopped in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.faults.cluster import Cluster
from tests.faults.commit_proxy import CommitProxy
from tests.waiting import eventually_true
from triumvir.testing import Call

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


@pytest.mark.slow
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


@pytest.fixture
async def proxy(cluster: Cluster) -> AsyncIterator[CommitProxy]:
    proxy = CommitProxy(cluster.settings.database_url)
    await proxy.start()
    yield proxy
    await proxy.stop()


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["claims", "replies"])
async def test_what_a_handler_that_raised_has_committed_is_sent_soon_and_continues_its_retries(
    cluster: Cluster, proxy: CommitProxy, stage: str
) -> None:
    cluster.tune(**PATIENT)
    await cluster.start(TRIUMVIR_DATABASE_URL=proxy.url)
    await (await cluster.load.submit_one("heard")).result(timeout=90)
    assert await revivals(cluster) == 0
    proxy.swallow(f"triumvir scheduler {stage}", 1)
    order = await cluster.load.submit_one("unheard")
    await order.result(timeout=90)
    assert proxy.swallowed == {f"triumvir scheduler {stage}": 1}
    said = await cluster.database.fetch(
        "select why from transitions join orders using (no) where order_id = $1 and (why like $2 or why like $3)"
        " order by n",
        order.order_id,
        FORWARD,
        "request sent again%",
    )
    assert [row["why"].removeprefix("the commit was not heard of, and ") for row in said] == [
        "nothing may have been sent; retry 1 is brought forward",
        "request sent again, retry 1",
    ]
    await cluster.database.execute("update outbox set lease = clock_timestamp()")
    await cluster.assert_sound(ends=False)


@pytest.mark.slow
async def test_a_handler_that_raises_before_its_commit_has_nobody_wait_for_an_interval(
    cluster: Cluster,
) -> None:
    cluster.tune(**PATIENT)
    await cluster.start()
    await cluster.database.execute(
        "create function stumble() returns trigger language plpgsql as $$ begin"
        " perform nextval('stumbles'); raise exception 'not today' using errcode = 'object_not_in_prerequisite_state';"
        " end $$"
    )
    await cluster.database.execute("create sequence stumbles")
    await cluster.database.execute(
        "create trigger stumble before update on steps for each row"
        " when (old.step_no = 2 and old.state = 'running' and new.state <> 'running') execute function stumble()"
    )
    order = await cluster.load.submit_one("good")

    async def has_raised() -> bool:
        return int(await cluster.database.fetchval("select last_value from stumbles")) >= 3

    await eventually_true(has_raised, within=90, what="the handler to raise again and again")
    await cluster.database.execute("drop trigger stumble on steps")
    await order.result(timeout=90)
    assert (await only_order(cluster))["retries"] == 0
    assert await revivals(cluster) == 0, "the reply is in hand: nothing has to be sent again"
    await cluster.assert_sound(ends=False)


@pytest.mark.slow
async def test_orders_of_a_scheduler_that_died_while_every_supervisor_was_away_are_revived_when_one_is_back(
    cluster: Cluster,
) -> None:
    cluster.tune(**PATIENT)
    await cluster.start()
    assert await cluster.services["supervisor"].stop() == 0
    scheduler = await cluster.arm("scheduler", "scheduler.claim.after_commit", 1)
    order = await cluster.load.submit_one("good")
    assert await scheduler.dies()
    dead = (await only_order(cluster))["touched_by"]
    lapsed = (
        "update instances set lease_until = clock_timestamp() - interval '1 hour' where id = $1 returning 1"
    )
    assert await cluster.database.fetchval(lapsed, dead) == 1
    await cluster.services["supervisor"].restart()
    await order.result(timeout=90)
    assert await revivals(cluster) == 1

    async def is_tidied() -> bool:
        return await cluster.database.fetchval("select 1 from instances where id = $1", dead) is None

    await eventually_true(is_tidied, within=90, what="the row of the dead one to go")
    await cluster.database.execute("update outbox set lease = clock_timestamp()")
    await cluster.assert_sound(ends=False)


@pytest.mark.slow
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
