"""A consumer whose room changes while deliveries are in hand: no more than fit, none given back, none forgotten."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.broker.proxy import Proxy
from tests.integration.broker.room import Room, message, numbers, queue_topology, take
from tests.waiting import eventually, eventually_true
from triumvir.broker import Consumer, Delivery


async def _full(
    room: Room, prefetch: int, *, url: str | None = None, **arguments: str
) -> tuple[Consumer, list[Delivery]]:
    """A consumer with as much in hand as it may have, and as much again that waits in its queue."""
    await room.declare(queue_topology("work", **arguments))
    connection = await room.connection("consuming", url=url)
    consumer = await room.consumer("work", prefetch, connection=connection, ack="single")
    await (await room.publisher()).publish([message(n) for n in range(1, 2 * prefetch + 1)])
    return consumer, await take(consumer, prefetch)


async def _is_ready(room: Room, ready: int) -> None:
    async def is_so() -> bool:
        return (await room.look("work"))[0] == ready

    await eventually_true(is_so, within=30, what=f"{ready} messages ready")


@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_a_place_that_is_given_up_is_not_filled_again(room: Room, kind: str) -> None:
    consumer, hand = await _full(room, 4, x_queue_type=kind)
    await consumer.fit(3, hand[0])
    await consumer.settle([hand[0]])
    await _is_ready(room, 4)
    assert consumer.unsettled == 3


async def test_the_only_place_that_is_given_up_leaves_a_consumer_that_is_well_and_takes_nothing(
    room: Room,
) -> None:
    consumer, hand = await _full(room, 1)
    await consumer.fit(0, hand[0])
    await consumer.settle(hand)
    assert await room.look("work") == (1, 0)
    assert consumer.subscribed
    assert await consumer.ensure_subscribed()
    await consumer.fit(1)
    assert numbers(await take(consumer, 1)) == [2]


@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_places_come_back_as_what_was_in_hand_is_settled(room: Room, kind: str) -> None:
    consumer, hand = await _full(room, 4, x_queue_type=kind)
    await consumer.fit(3, hand[0])
    await consumer.settle(hand)
    await consumer.fit(3)
    after = await take(consumer, 3)
    assert numbers(after) == [5, 6, 7]
    assert not any(delivery.redelivered for delivery in after)
    await _is_ready(room, 1)
    await consumer.settle(after[:1])
    assert numbers(await take(consumer, 1)) == [8]


async def test_what_came_and_was_not_taken_is_kept_when_places_go(room: Room) -> None:
    await room.declare(queue_topology("work"))
    consumer = await room.consumer("work", 4, ack="single")
    await (await room.publisher()).publish([message(n) for n in range(1, 5)])
    first = await take(consumer, 1, limit=1)
    await _is_ready(room, 0)
    await consumer.fit(3, first[0])
    await consumer.settle(first)
    rest = await take(consumer, 3)
    assert numbers(rest) == [2, 3, 4]
    await consumer.settle(rest)
    assert consumer.unsettled == 0


async def test_what_is_in_hand_of_an_earlier_subscription_returns_when_its_consumer_closes(
    room: Room,
) -> None:
    consumer, hand = await _full(room, 2)
    await consumer.fit(1, hand[0])
    await consumer.settle([hand[0]])
    await consumer.close()
    await _is_ready(room, 3)


async def test_stopping_gives_back_what_nobody_took_of_any_subscription(room: Room) -> None:
    await room.declare(queue_topology("work"))
    consumer = await room.consumer("work", 2, ack="single")
    await (await room.publisher()).publish([message(n) for n in range(1, 3)])
    await _is_ready(room, 0)
    await consumer.fit(1)
    await asyncio.gather(consumer.stop_taking(), consumer.fit(2))
    await _is_ready(room, 2)
    assert await consumer.batch(10) == []


async def test_when_the_connection_is_lost_it_comes_back_with_the_places_it_has(
    room: Room, proxy: Proxy
) -> None:
    consumer, hand = await _full(room, 4, url=proxy.url)
    await consumer.fit(3, hand[0])
    await consumer.settle(hand[:2])
    await consumer.fit(3)
    proxy.cut()
    await eventually(lambda: not consumer.subscribed, what="the loss to be noticed")

    async def is_full() -> bool:
        await consumer.fit(3)
        return consumer.subscribed and consumer.unsettled == 3

    await eventually_true(is_full, what="the places")
    again = await take(consumer, 3)
    await consumer.settle(hand)
    assert consumer.unsettled == 3, "what was in hand before is void"
    await consumer.settle(again)
    assert len(await take(consumer, 1)) == 1


async def test_with_no_place_and_a_lost_connection_it_comes_back_when_there_is_one(
    room: Room, proxy: Proxy
) -> None:
    consumer, hand = await _full(room, 1, url=proxy.url)
    await consumer.fit(0, hand[0])
    await consumer.settle(hand)
    proxy.cut()
    await eventually(lambda: not consumer.subscribed, what="the loss to be noticed")
    await eventually(lambda: consumer.subscribed, what="the connection")
    await consumer.fit(1)
    assert numbers(await take(consumer, 1)) == [2]
