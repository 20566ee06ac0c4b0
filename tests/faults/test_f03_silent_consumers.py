"""F03: consumers that the broker has forgotten without a word, and connections that it closes."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from tests.faults.cluster import STRAIGHT, Cluster
from tests.faults.pressure import more_ended, said, under_load
from triumvir.broker import ORDERS, REPLIES, agent_queue
from triumvir.local import PrivateServers
from triumvir.local.broker import PrivateBroker
from triumvir.telemetry import events

pytestmark = pytest.mark.slow
CONSUMERS: Final = {"submitter": ORDERS, "scheduler": REPLIES, "agent": agent_queue("goods")}


def forget_consumers(broker: PrivateBroker, vhost: str, queue: str) -> int:
    """Cancel every consumer of a classic queue inside the broker; no frame says so. How many there were."""
    answer = broker.ctl(
        "eval",
        f'{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"{vhost}">>, queue, <<"{queue}">>)),'
        " length([gen_server2:call(amqqueue:get_pid(Q), {basic_cancel, element(1, C), element(2, C), undefined,"
        ' <<"fault">>}) || C <- rabbit_amqqueue:consumers(Q)]).',
    )
    return int(answer)


async def test_f03_consumers_forgotten_by_the_broker_come_back_and_orders_complete(
    cluster: Cluster, private_servers: PrivateServers
) -> None:
    await cluster.start()
    await cluster.load.submit(10, "good")
    await more_ended(cluster, 5)
    for queue in CONSUMERS.values():
        assert await asyncio.to_thread(forget_consumers, private_servers.broker, cluster.vhost, queue) == 1
    await cluster.load.submit(20, "good", "refused")
    await cluster.assert_sound()
    for name, queue in CONSUMERS.items():
        assert queue in {line["queue"] for line in said(cluster, name, events.CONSUMER_LOST)}, (
            f"{queue} was found out"
        )


async def test_f03_connections_that_the_broker_closes_under_load_are_opened_again(
    cluster: Cluster, private_servers: PrivateServers
) -> None:
    """Every connection there is, the client's own as well."""
    await cluster.start()
    close = ("close_all_connections", "--vhost", cluster.vhost, "by the operator")
    async with under_load(cluster):
        for _ in range(2):
            await more_ended(cluster, 10)
            await asyncio.to_thread(private_servers.broker.ctl, *close)
        await more_ended(cluster, 10)
    await cluster.assert_sound()
    for name in STRAIGHT:
        assert len(said(cluster, name, events.BROKER_LOST)) >= 4, f"{name} lost its two connections twice"
