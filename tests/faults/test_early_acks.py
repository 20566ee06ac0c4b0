"""Long steps are acknowledged as soon as they are begun: from then on the inbox row is all there is."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

import pytest

from tests.faults.broker.test_broker_faults import limit_handling
from tests.faults.cluster import STRAIGHT, Cluster
from tests.faults.pressure import said
from tests.waiting import eventually, eventually_true
from triumvir.local import PrivateServers
from triumvir.telemetry import events

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
LONG: Final = {"charge": {"slow": 9.0}}
SLOTS: Final = 2
POINTS: Final = (
    "agent.early.before_ack",
    "agent.early.after_ack",
    "agent.call.before",
    "agent.call.after",
    "agent.finish.before_commit",
    "agent.finish.after_commit",
    "agent.reply.after_confirm",
    "agent.replied.before_commit",
    "agent.replied.after_commit",
    "agent.after_ack",
)
SWEPT: Final = ("agent.sweep.after_commit", "agent.sweep.after_publish")
WAVES: Final = 60


@pytest.fixture
async def impatient(private_servers: PrivateServers) -> AsyncIterator[None]:
    """The broker waits three seconds for an acknowledgement instead of half an hour, and looks twice a second."""
    await asyncio.to_thread(limit_handling, private_servers.broker, "3000", "500")
    yield
    await asyncio.to_thread(limit_handling, private_servers.broker, "1800000", "60000")


@pytest.mark.usefixtures("impatient")
async def test_f04_steps_longer_than_the_broker_waits_keep_their_channel_and_their_neighbours(
    cluster: Cluster,
) -> None:
    """More of them than there are slots: what has none waits in its queue, where its time does not run."""
    cluster.tune(step_timeout="90", retry_interval="60", consumer_timeout="3", slots=str(SLOTS))
    await cluster.start()
    orders = [await cluster.load.submit_one(f"long-{n}", LONG) for n in range(2 * SLOTS)]
    short = await cluster.load.submit(8, "good")
    for order in (*orders, *short):
        await order.result(timeout=120)
    for event in (events.CONSUMER_RESTORED, events.CONSUMER_LOST, events.ACKNOWLEDGEMENT_LOST):
        assert not said(cluster, "agent", event)
    await cluster.assert_sound()
    called = Counter(call.order for call in cluster.downstream.calls() if call.step == "charge")
    assert called == {order.key: 1 for order in (*orders, *short)}
    assert await cluster.database.fetchval("select sum(failure_count) from orders") == 0
    assert await cluster.database.fetchval("select sum(retries) from orders") == 0
    unmarked = "select count(*) from inbox where early is not null and replied_at is null"
    assert await cluster.database.fetchval(unmarked) == 0


@pytest.mark.parametrize("point", POINTS)
async def test_f35_an_agent_dies_twice_with_early_acknowledged_requests_at(
    cluster: Cluster, point: str
) -> None:
    cluster.tune(consumer_timeout="1")
    await cluster.start()
    await cluster.arm("agent", point, 1, 6)
    await _until_it_died(cluster, 2)
    await cluster.assert_sound()
    assert cluster.crashes(point) == 2


@pytest.mark.parametrize("point", SWEPT)
async def test_f35_an_agent_dies_twice_in_a_sweep_at(cluster: Cluster, point: str) -> None:
    """What it sweeps is of a life before, which ended as soon as an outcome was committed."""
    cluster.tune(consumer_timeout="1")
    await cluster.start()
    await cluster.services["agent"].restart(
        {"TRIUMVIR_CRASH_AT": "agent.finish.after_commit:1"},
        {"TRIUMVIR_CRASH_AT": f"{point}:1"},
        {"TRIUMVIR_CRASH_AT": f"{point}:1"},
    )
    await _until_it_died(cluster, 3)
    await cluster.assert_sound()
    assert cluster.crashes(point) == 2


async def _until_it_died(cluster: Cluster, times: int) -> None:
    agent = cluster.services["agent"]
    for _ in range(WAVES):
        await cluster.load.submit(8)
        if await agent.dies(times=times, within=2.0):
            return
    raise AssertionError(f"the agent died {agent.exits.count(137)} times")


async def test_a_reply_that_died_with_its_agent_is_swept_without_retry_or_new_attempt(
    cluster: Cluster,
) -> None:
    cluster.tune(consumer_timeout="1", step_timeout="300", retry_interval="200", max_retries="0")
    await cluster.start()
    await cluster.arm("agent", "agent.finish.after_commit", 1)
    order = await cluster.load.submit_one("swept")
    await order.result(timeout=60)
    assert said(cluster, "agent", events.REPLY_SWEPT)
    await cluster.assert_sound()
    assert {call.step: 1 for call in cluster.downstream.calls()} == Counter(
        call.step for call in cluster.downstream.calls()
    )
    assert await cluster.database.fetchval("select sum(failure_count) from orders") == 0


async def test_with_two_databases_the_rows_are_where_the_states_are(two_databases: Cluster) -> None:
    cluster = two_databases
    cluster.tune(consumer_timeout="1")
    await cluster.start()
    await cluster.arm("agent", "agent.finish.after_commit", 1, 6)
    await _until_it_died(cluster, 2)
    await cluster.assert_sound()
    marked = "select count(*) from inbox where early is not null and replied_at is not null"
    assert await cluster.database.fetchval(marked)


async def test_a_call_that_died_with_its_agent_is_repeated_by_the_retry_under_the_same_key(
    cluster: Cluster,
) -> None:
    """Nobody redelivers it: the retry of the scheduler reaches an agent once the lease of the dead one has lapsed."""
    cluster.tune(consumer_timeout="1", step_timeout="60", retry_interval="4")
    await cluster.start()
    order = await cluster.load.submit_one("cut-off", {"reserve": {"slow": 5.0}})
    await eventually(lambda: len(cluster.downstream.calls()) == 1, what="the call")
    await cluster.services["agent"].restart(number=signal.SIGKILL)
    await order.result(timeout=60)
    await cluster.assert_sound()
    assert await cluster.database.fetchval("select sum(failure_count) from orders") == 0


async def test_a_drain_gives_long_calls_up_in_time_and_says_so(cluster: Cluster) -> None:
    cluster.tune(consumer_timeout="1", step_timeout="60", retry_interval="20", drain_timeout="4")
    await cluster.start(*STRAIGHT)
    order = await cluster.load.submit_one("given-up", {"reserve": {"slow": 30.0}})
    await eventually(lambda: len(cluster.downstream.calls()) == 1, what="the call")
    assert await cluster.services["agent"].stop(signal.SIGTERM) == 0, "in good order"
    (left,) = said(cluster, "agent", events.REQUEST_LEFT)
    assert order.key in left["message_id"]
    assert await cluster.database.fetchval("select count(*) from instances where service = 'agent'") == 0
    await cluster.services["agent"].restart()
    await order.result(timeout=120)
    await cluster.assert_sound()


async def test_a_drain_finishes_a_long_call_that_ends_in_time(cluster: Cluster) -> None:
    cluster.tune(consumer_timeout="1", step_timeout="60", retry_interval="40", drain_timeout="20")
    await cluster.start()
    order = await cluster.load.submit_one("in-time", {"reserve": {"slow": 4.0}})
    await eventually(lambda: len(cluster.downstream.calls()) == 1, what="the call")
    assert await cluster.services["agent"].stop(signal.SIGTERM) == 0
    assert not said(cluster, "agent", events.REQUEST_LEFT)

    async def is_marked() -> bool:
        return bool(
            await cluster.database.fetchval("select count(*) from inbox where replied_at is not null")
        )

    await eventually_true(is_marked, what="the reply")
    await cluster.services["agent"].restart()
    await order.result(timeout=60)
    await cluster.assert_sound()
    assert Counter(call.step for call in cluster.downstream.calls())["reserve"] == 1
