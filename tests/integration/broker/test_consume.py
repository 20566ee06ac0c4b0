"""Deliveries come in batches, and nothing is acknowledged that was not settled."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.broker.proxy import Proxy
from tests.integration.broker.room import Room, eventually, message, numbers, queue_topology, take, take_all
from triumvir.broker import Consumer, Outcome, client_topology, core_topology, status_queue
from triumvir.errors import BrokerError


async def fill(room: Room, count: int, queue: str = "work", first: int = 0) -> None:
    await room.declare(queue_topology(queue))
    publisher = await room.publisher()
    outcomes = await publisher.publish([message(number, queue) for number in range(first, first + count)])
    assert outcomes == [Outcome.CONFIRMED] * count


async def left_over(room: Room, consumer: Consumer, count: int) -> list[int]:
    """What the queue still holds once ``consumer`` is closed: exactly ``count`` numbers."""
    await consumer.close()
    again = await room.consumer(consumer.queue, 1000)
    found = await take(again, count) if count else []
    assert (await room.look(consumer.queue))[0] == 0
    assert again.unsettled == count
    return numbers(found)


async def test_a_batch_waits_for_the_first_and_takes_what_is_there(room: Room) -> None:
    await room.declare(queue_topology("work"))
    consumer = await room.consumer("work")
    waiting = asyncio.ensure_future(consumer.batch(10))
    await fill(room, 30)
    async with asyncio.timeout(10):
        first = await waiting
    assert 1 <= len(first) <= 10
    await eventually(lambda: consumer.unsettled == 30)
    assert (
        numbers(first + await consumer.batch(10) + await consumer.batch(100))
        == list(range(30))[: len(first) + 110]
    )


async def test_f10_unsettled_deliveries_never_exceed_the_prefetch(room: Room) -> None:
    await fill(room, 500)
    consumer = await room.consumer("work", 7)
    await eventually(lambda: consumer.unsettled == 7)
    assert (await room.look("work"))[0] == 493
    first = await take(consumer, 7)
    await consumer.settle(first[:3])
    await eventually(lambda: consumer.unsettled == 7)
    assert (await room.look("work"))[0] == 490


@pytest.mark.parametrize("prefetch", [0, -1, 70_000])
async def test_a_consumer_without_a_bound_is_refused(room: Room, prefetch: int) -> None:
    with pytest.raises(ValueError, match="prefetch"):
        await room.consumer("work", prefetch)


async def test_front_an_unsettled_first_keeps_all_behind_it(room: Room) -> None:
    await fill(room, 10)
    consumer = await room.consumer("work", ack="front")
    taken = await take(consumer, 10)
    await consumer.settle(taken[1:])
    assert consumer.unsettled == 10
    assert await left_over(room, consumer, 10) == list(range(10))


async def test_front_only_the_contiguous_settled_front_is_acknowledged(room: Room) -> None:
    await fill(room, 10)
    consumer = await room.consumer("work", ack="front")
    taken = await take(consumer, 10)
    await consumer.settle(taken[5:7])
    await consumer.settle(taken[1:4])
    await consumer.settle(taken[:1])
    assert consumer.unsettled == 6
    assert await left_over(room, consumer, 6) == list(range(4, 10))


async def test_front_what_is_buffered_but_not_taken_stays(room: Room) -> None:
    await fill(room, 10)
    consumer = await room.consumer("work", ack="front")
    await eventually(lambda: consumer.unsettled == 10)
    await consumer.settle(await consumer.batch(4))
    assert await left_over(room, consumer, 6) == list(range(4, 10))


async def test_single_each_settled_delivery_is_acknowledged(room: Room) -> None:
    await fill(room, 10)
    consumer = await room.consumer("work", ack="single")
    taken = await take(consumer, 10)
    await consumer.settle([taken[8], taken[3], taken[4]])
    await consumer.settle([taken[0]])
    await consumer.settle([taken[1]])
    assert await left_over(room, consumer, 5) == [2, 5, 6, 7, 9]


async def test_what_comes_again_is_marked_as_redelivered(room: Room) -> None:
    await fill(room, 2)
    consumer = await room.consumer("work")
    assert [delivery.redelivered for delivery in await take(consumer, 2)] == [False, False]
    await consumer.close()
    assert [delivery.redelivered for delivery in await take(await room.consumer("work"), 2)] == [True, True]


@pytest.mark.parametrize("ack", ["front", "single"])
async def test_settling_twice_or_in_parallel_does_no_harm(room: Room, ack: str) -> None:
    await fill(room, 200)
    consumer = await room.consumer("work", 200, ack=ack)
    taken = await take(consumer, 200)
    halves = [taken[::2], taken[1::2], taken, taken[50:150], []]
    await asyncio.gather(*(consumer.settle(half) for half in halves))
    await consumer.settle(taken)
    assert consumer.unsettled == 0
    await fill(room, 5, first=500)
    assert numbers(await take(consumer, 5)) == [500, 501, 502, 503, 504]
    assert await left_over(room, consumer, 5) == [500, 501, 502, 503, 504]


async def test_a_cancelled_settle_leaves_its_work_to_the_next(room: Room) -> None:
    await fill(room, 100)
    consumer = await room.consumer("work")
    taken = await take(consumer, 100)
    for delivery in taken[:-1]:
        running = asyncio.ensure_future(consumer.settle([delivery]))
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await consumer.settle(taken)
    assert await left_over(room, consumer, 0) == []


async def test_a_stale_settlement_after_a_reconnect_acknowledges_nothing(room: Room, proxy: Proxy) -> None:
    await fill(room, 10)
    connection = await room.connection("consuming", url=proxy.url)
    consumer = await room.consumer("work", connection=connection)
    old = await take(consumer, 10)
    proxy.cut()
    await eventually(lambda: connection.epoch == 2)
    new = await take(consumer, 10)
    assert [delivery.redelivered for delivery in new] == [True] * 10
    await consumer.settle(old)
    assert consumer.unsettled == 10
    await consumer.settle(new[:4])
    await consumer.settle(old)
    assert await left_over(room, consumer, 6) == list(range(4, 10))


async def test_what_is_buffered_from_a_lost_channel_is_not_handed_out(room: Room, proxy: Proxy) -> None:
    await fill(room, 10)
    connection = await room.connection("consuming", url=proxy.url)
    consumer = await room.consumer("work", connection=connection)
    await eventually(lambda: consumer.unsettled == 10)
    proxy.cut()
    await eventually(lambda: not connection.is_open)
    assert all(delivery.redelivered for delivery in await take(consumer, 10))


async def test_stop_taking_gives_back_the_buffer_and_lets_the_rest_be_settled(room: Room) -> None:
    await fill(room, 20)
    consumer = await room.consumer("work", ack="single")
    taken = await take(consumer, 5)
    await eventually(lambda: consumer.unsettled == 20)
    await consumer.stop_taking()
    assert not consumer.subscribed
    assert await consumer.batch(10) == []
    await eventually(lambda: _depth_is(room, "work", (15, 0)))
    await consumer.settle(taken[1:])
    assert await left_over(room, consumer, 16) == [0, *range(5, 20)]


async def test_stop_taking_ends_a_waiting_batch(room: Room) -> None:
    await room.declare(queue_topology("work"))
    consumer = await room.consumer("work")
    waiting = asyncio.ensure_future(consumer.batch(10))
    await asyncio.sleep(0)
    await consumer.stop_taking()
    async with asyncio.timeout(5):
        assert await waiting == []


async def test_after_stop_taking_a_lost_channel_is_not_renewed(room: Room, proxy: Proxy) -> None:
    await fill(room, 3)
    connection = await room.connection("consuming", url=proxy.url)
    consumer = await room.consumer("work", connection=connection)
    taken = await take(consumer, 3)
    await consumer.stop_taking()
    proxy.cut()
    await eventually(lambda: connection.epoch == 2)
    await consumer.settle(taken)
    await eventually(lambda: _depth_is(room, "work", (3, 0)))


async def test_a_queue_that_does_not_exist_is_named_at_the_start(room: Room) -> None:
    with pytest.raises(BrokerError, match="'work' does not exist"):
        await room.consumer("work")


async def test_f19_a_queue_deleted_under_its_consumer_is_declared_and_consumed_again(room: Room) -> None:
    topology = queue_topology("work")
    await room.declare(topology)
    consumer = await room.consumer("work", topology=topology)
    await (await room.raw_channel()).queue_delete("work")
    await eventually(lambda: not consumer.subscribed)
    await eventually(lambda: consumer.subscribed)
    publisher = await room.publisher()
    assert await publisher.publish([message(1)]) == [Outcome.CONFIRMED]
    assert numbers(await take(consumer, 1)) == [1]


async def test_f19_without_a_topology_the_consumer_waits_for_the_queue(room: Room) -> None:
    await room.declare(queue_topology("work"))
    consumer = await room.consumer("work")
    await (await room.raw_channel()).queue_delete("work")
    await eventually(lambda: not consumer.subscribed)
    await fill(room, 1)
    assert numbers(await take(consumer, 1)) == [0]


async def test_a_served_consumer_is_left_alone(room: Room) -> None:
    await fill(room, 500)
    consumer = await room.consumer("work", 10)
    taken = await take(consumer, 10)
    assert [await consumer.ensure_subscribed() for _ in range(3)] == [True, True, True]
    await consumer.settle(taken)
    assert not any(delivery.redelivered for delivery in await take(consumer, 10))


async def test_a_consumer_that_waits_for_its_turn_is_left_alone(room: Room) -> None:
    queue = status_queue("shop-a")
    await room.declare(core_topology(quorum=False), client_topology("shop-a", quorum=False))
    active, waiting = await room.consumer(queue, 1), await room.consumer(queue, 1)
    await (await room.publisher()).publish([message(number, queue) for number in range(5)])
    first = await take(active, 1)
    assert [await waiting.ensure_subscribed() for _ in range(3)] == [True, True, True]
    assert waiting.unsettled == 0
    await active.settle(first)
    await active.close()
    assert numbers(await take(waiting, 1)) == [1]


async def test_one_consumer_on_a_connection_does_not_disturb_another(room: Room) -> None:
    await fill(room, 5, "one")
    await fill(room, 5, "two")
    one, two = await room.consumer("one"), await room.consumer("two")
    await (await room.raw_channel()).queue_delete("one")
    await eventually(lambda: not one.subscribed)
    await two.settle(await take(two, 5))
    assert await left_over(room, two, 0) == []


async def test_a_thousand_deliveries_come_in_order_and_once(room: Room) -> None:
    await fill(room, 1000)
    assert await take_all(await room.consumer("work", 50), set(range(1000))) == list(range(1000))


async def _depth_is(room: Room, queue: str, expected: tuple[int, int]) -> bool:
    return await room.look(queue) == expected
