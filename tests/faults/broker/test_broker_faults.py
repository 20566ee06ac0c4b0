"""The broker dies, blocks, or takes its channel away, under load."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.integration.broker.room import Room, eventually, message, numbers, queue_topology, take, take_all
from triumvir.broker import Consumer, Outcome, Publisher
from triumvir.local.broker import PrivateBroker

pytestmark = pytest.mark.faults
CONFIRMED, UNKNOWN = Outcome.CONFIRMED, Outcome.UNKNOWN


class Load:
    """Publishes numbered batches until each message is confirmed, as the outbox would, and remembers what it saw."""

    def __init__(self, publisher: Publisher, total: int) -> None:
        self._publisher = publisher
        self._total = total
        self.confirmed: set[int] = set()
        self.outcomes: Counter[Outcome] = Counter()

    async def run(self) -> None:
        batches = [range(first, first + 50) for first in range(0, self._total, 50)]
        lanes = [batches[lane::4] for lane in range(4)]
        await asyncio.gather(*(self._lane(lane) for lane in lanes))

    async def _lane(self, batches: list[range]) -> None:
        for batch in batches:
            left = [*batch]
            while left:
                outcomes = await self._publisher.publish([message(number) for number in left])
                self.outcomes.update(outcomes)
                self.confirmed |= {
                    number for number, outcome in zip(left, outcomes, strict=True) if outcome is CONFIRMED
                }
                left = [
                    number for number, outcome in zip(left, outcomes, strict=True) if outcome is not CONFIRMED
                ]


@pytest.mark.parametrize("kind", ["quorum", pytest.param("classic", marks=pytest.mark.slow)])
async def test_f01_after_kill_9_the_consumer_returns_and_nothing_confirmed_is_lost(
    private_room: Room, broker: PrivateBroker, kind: str
) -> None:
    room, total = private_room, 3000
    await room.declare(queue_topology("work", x_queue_type=kind))
    await asyncio.to_thread(write_down, broker)
    load = Load(await room.publisher(timeout=2.0), total)
    consumer = await room.consumer("work", 200)
    async with asyncio.timeout(240), asyncio.TaskGroup() as group:
        consuming = group.create_task(take_all(consumer, set(range(total)), within=240))
        publishing = group.create_task(load.run())
        await eventually(lambda: len(load.confirmed) >= 500)
        await asyncio.to_thread(broker.kill)
        gc.collect()
        await eventually(lambda: not consumer.subscribed)
        assert not publishing.done()
        await asyncio.to_thread(broker.start)
    assert load.outcomes[UNKNOWN] > 0
    assert load.confirmed == set(range(total)) == set(consuming.result())
    assert await consumer.ensure_subscribed()


def write_down(broker: PrivateBroker) -> None:
    """Have the broker remember its queues: RabbitMQ 3.10 forgets a quorum queue declared a second before kill -9."""
    broker.ctl("eval", "[dets:sync(Table) || Table <- dets:all()].")


@pytest.fixture
def alarm(broker: PrivateBroker) -> Iterator[None]:
    """Nothing at first; whatever the test sets, the memory watermark is as before afterwards."""
    yield
    clear(broker)


def raise_alarm(broker: PrivateBroker) -> None:
    broker.ctl("set_vm_memory_high_watermark", "0.00001")


def clear(broker: PrivateBroker) -> None:
    broker.ctl("set_vm_memory_high_watermark", "absolute", "1073741824")


@pytest.mark.usefixtures("alarm")
async def test_f09_an_alarm_times_publishes_out_drains_consumers_and_passes(
    private_room: Room, broker: PrivateBroker
) -> None:
    room = private_room
    await room.declare(queue_topology("work"))
    patient, publisher = await room.publisher(), await room.publisher(timeout=1.0)
    assert await patient.publish([message(number) for number in range(15)]) == [CONFIRMED] * 15
    await asyncio.to_thread(raise_alarm, broker)
    blocked = [message(number) for number in range(100, 103)]
    for _ in range(4):
        assert await publisher.publish(blocked) == [UNKNOWN] * 3
    assert publisher.oldest_unconfirmed_age() > 1.0
    await drain(await room.consumer("work"), set(range(15)))
    await asyncio.to_thread(clear, broker)
    await eventually(lambda: publisher.oldest_unconfirmed_age() == 0.0)
    assert await patient.publish(blocked) == [CONFIRMED] * 3
    copies = Counter(numbers(await take(await room.consumer("work"), 6)))
    assert copies == {100: 2, 101: 2, 102: 2}, "four attempts under the alarm were one publish each"


async def test_f04_a_delivery_kept_too_long_comes_again_and_its_late_settlement_is_dropped(
    private_room: Room, broker: PrivateBroker
) -> None:
    room = private_room
    await asyncio.to_thread(limit_handling, broker, "2000", "500")
    try:
        await room.declare(queue_topology("work"))
        consumer = await room.consumer("work")
        await (await room.publisher()).publish([message(1), message(2)])
        first = await take(consumer, 2)
        again = await take(consumer, 2)
        await consumer.settle(first)
        assert consumer.unsettled == 2
        await consumer.settle(again)
        assert [delivery.redelivered for delivery in again] == [True, True]
        assert await room.look("work") == (0, 1)
    finally:
        await asyncio.to_thread(limit_handling, broker, "1800000", "60000")


def limit_handling(broker: PrivateBroker, timeout: str, tick: str) -> None:
    broker.ctl(
        "eval",
        f"application:set_env(rabbit, consumer_timeout, {timeout}),"
        f"application:set_env(rabbit, channel_tick_interval, {tick}).",
    )


async def drain(consumer: Consumer, wanted: set[int]) -> None:
    assert sorted(await take_all(consumer, wanted)) == sorted(wanted)
    await consumer.close()
