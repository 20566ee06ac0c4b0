"""F03: a consumer that the broker has forgotten is found out and subscribes again."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.broker.conftest import proxy, room, transport
from tests.integration.broker.proxy import BASIC_CANCEL, Proxy
from tests.integration.broker.room import Room, eventually, message, numbers, queue_topology, take
from triumvir.broker import Outcome

__all__ = ["proxy", "room", "transport"]

pytestmark = pytest.mark.faults


async def forget(room: Room, proxy: Proxy, queue: str) -> None:
    """Have the broker cancel the consumers of ``queue`` without a word reaching the client."""
    proxy.swallow(BASIC_CANCEL)
    await (await room.raw_channel()).queue_delete(queue)
    await room.declare(queue_topology(queue))
    await eventually(lambda: proxy.swallowed == 1)


async def test_f03_a_consumer_the_broker_has_forgotten_subscribes_again(room: Room, proxy: Proxy) -> None:
    await room.declare(queue_topology("work"))
    connection = await room.connection("consuming", url=proxy.url)
    consumer = await room.consumer("work", connection=connection)
    assert await consumer.ensure_subscribed()
    await forget(room, proxy, "work")
    assert await (await room.publisher()).publish([message(1)]) == [Outcome.CONFIRMED]
    assert consumer.subscribed
    assert await room.look("work") == (1, 0)
    assert not await consumer.ensure_subscribed()
    assert numbers(await take(consumer, 1)) == [1]
    assert consumer.subscribed
    assert await consumer.ensure_subscribed()
    assert connection.epoch == 1


async def test_f03_another_consumer_does_not_hide_the_loss(room: Room, proxy: Proxy) -> None:
    await room.declare(queue_topology("work"))
    consumer = await room.consumer("work", connection=await room.connection("consuming", url=proxy.url))
    await forget(room, proxy, "work")
    other = await room.consumer("work", 1)
    await (await room.publisher()).publish([message(number) for number in range(5)])
    await eventually(lambda: other.unsettled == 1)
    assert await room.look("work") == (4, 1)
    assert await consumer.ensure_subscribed()
    assert not await consumer.ensure_subscribed()
    assert numbers(await take(consumer, 4)) == [1, 2, 3, 4]


async def test_f03_a_subscription_cancelled_behind_its_back_is_renewed(room: Room) -> None:
    await room.declare(queue_topology("work"))
    consumer = await room.consumer("work")
    await consumer._session.channel.basic_cancel(consumer._session.consumer_tag)  # type: ignore[union-attr]
    assert not consumer.subscribed
    assert not await consumer.ensure_subscribed()
    await eventually(lambda: consumer.subscribed)


async def test_f03_a_keeper_that_died_is_replaced(room: Room, proxy: Proxy) -> None:
    await room.declare(queue_topology("work"))
    connection = await room.connection("consuming", url=proxy.url)
    consumer = await room.consumer("work", connection=connection)
    keeper = consumer._keeper
    assert keeper is not None
    keeper.cancel()
    await asyncio.gather(keeper, return_exceptions=True)
    proxy.cut()
    await eventually(lambda: connection.epoch == 2)
    assert not consumer.subscribed
    assert not await consumer.ensure_subscribed()
    await eventually(lambda: consumer.subscribed)
