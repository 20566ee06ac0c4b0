"""A topology is declared as often as one likes; what differs is named and left as it is."""

from __future__ import annotations

import pytest

from tests.integration.broker.room import Room, message, numbers, queue_topology, take
from triumvir.broker import (
    ALERTS,
    INTERNAL_EXCHANGE,
    ORDERS,
    ORDERS_EXCHANGE,
    REPLIES,
    WAKE,
    ExchangeSpec,
    Outcome,
    Topology,
    agent_queue,
    agent_topology,
    client_topology,
    core_topology,
    dead_queue,
    declare,
    status_queue,
)
from triumvir.errors import BrokerError, TopologyMismatch


def everything(*, quorum: bool) -> Topology:
    return (
        core_topology(quorum=quorum)
        + agent_topology("payments", quorum=quorum)
        + client_topology("shop-a", quorum=quorum)
        + client_topology("shop-a", "web-1", quorum=quorum)
    )


@pytest.mark.parametrize("quorum", [True, False], ids=["quorum", "classic"])
async def test_everything_is_declared_twice_and_each_queue_is_reached(room: Room, quorum: bool) -> None:
    connection = await room.connection()
    await declare(connection, everything(quorum=quorum))
    await declare(connection, everything(quorum=quorum))
    agent, status, instance = agent_queue("payments"), status_queue("shop-a"), status_queue("shop-a", "web-1")
    queues = [REPLIES, WAKE, ALERTS, agent, status, instance, *map(dead_queue, (ORDERS, REPLIES, agent))]
    publisher = await room.publisher()
    outcomes = await publisher.publish([message(number, queue) for number, queue in enumerate(queues)])
    assert outcomes == [Outcome.CONFIRMED] * len(queues)
    by_client = message("order", exchange=ORDERS_EXCHANGE, routing_key="anything at all")
    assert await publisher.publish([by_client]) == [Outcome.CONFIRMED]
    for queue in (ORDERS, *queues):
        assert (await room.look(queue))[0] == 1, queue


@pytest.mark.parametrize("quorum", [True, False], ids=["quorum", "classic"])
async def test_what_an_agent_rejects_is_kept_in_its_dead_queue(room: Room, quorum: bool) -> None:
    await room.declare(everything(quorum=quorum))
    queue = agent_queue("payments")
    await (await room.publisher()).publish([message(7, queue)])
    channel = await room.raw_channel()
    got = await channel.basic_get(queue)
    assert got.delivery_tag is not None
    await channel.basic_reject(got.delivery_tag, requeue=False)
    assert numbers(await take(await room.consumer(dead_queue(queue)), 1)) == [7]


async def test_f08_a_queue_with_other_arguments_is_named_with_the_difference(room: Room) -> None:
    await room.declare(queue_topology("work", x_max_length=5))
    consumer = await room.consumer("work")
    publisher = await room.publisher()
    connection = await room.connection("starting")
    wanted = queue_topology("before", "work", "behind", x_max_length=10)
    with pytest.raises(
        TopologyMismatch, match=r"queue 'work' exists with another x-max-length: needed '10', found '5'"
    ):
        await declare(connection, wanted)
    assert connection.is_open
    assert await publisher.publish([message(1)]) == [Outcome.CONFIRMED]
    assert numbers(await take(consumer, 1)) == [1]
    assert await room.look("before") == await room.look("behind") == (0, 0)


async def test_f08_every_difference_is_named_at_once(room: Room) -> None:
    await room.declare(queue_topology("one"), queue_topology("two", x_max_length=5))
    connection = await room.connection("starting")
    wanted = queue_topology("one", "two", x_max_length=10) + Topology(
        (ExchangeSpec(INTERNAL_EXCHANGE, "fanout"),)
    )
    with pytest.raises(TopologyMismatch) as mismatch:
        await declare(connection, wanted)
    for part in ("exchange 'triumvir' exists with another type: needed 'fanout', found 'direct'",
                 "queue 'one' exists with another x-max-length: needed '10', found none",
                 "queue 'two' exists with another x-max-length: needed '10', found '5'"):  # fmt: skip
        assert part in str(mismatch.value)


async def test_a_classic_queue_where_a_quorum_queue_is_needed_is_a_difference(room: Room) -> None:
    connection = await room.connection()
    await declare(connection, core_topology(quorum=False))
    with pytest.raises(TopologyMismatch, match="queue 'orders' exists with another x-queue-type"):
        await declare(connection, core_topology(quorum=True))


async def test_a_binding_to_an_exchange_that_is_missing_is_named(room: Room) -> None:
    connection = await room.connection()
    with pytest.raises(BrokerError, match=r"binding of queue 'agent.payments' .*no exchange 'triumvir'"):
        await declare(connection, agent_topology("payments"))
