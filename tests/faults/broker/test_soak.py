"""A mixed load with everything that can break a connection, at random: nothing confirmed is lost, nothing is left over.

A minute by default; ``FAULT_SOAK_SECONDS=1800`` for half an hour. ``FAULT_SEED`` chooses what is broken when.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable

import psutil
import pytest

from tests.integration.broker.conftest import proxy, room, transport
from tests.integration.broker.proxy import Proxy
from tests.integration.broker.room import Room, eventually, message, queue_topology
from triumvir.broker import Consumer, Delivery, Outcome, OutMessage, Publisher
from triumvir.broker.session import Session

__all__ = ["proxy", "room", "transport"]

SECONDS = float(os.environ.get("FAULT_SOAK_SECONDS", "60"))
SEED = int(os.environ.get("FAULT_SEED", "1"))
SIZES = (0, 1, 150, 150, 150, 4000, 131_063, 131_064, 131_065, 300_000)
GROWTH = 150 * 1024 * 1024
"""Bytes that the process may grow by: batches of large bodies come and go."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 240)]
CONFIRMED, RETURNED, REFUSED, UNKNOWN = Outcome.CONFIRMED, Outcome.RETURNED, Outcome.REFUSED, Outcome.UNKNOWN


class Soak:
    """What was confirmed, what came, and whether it goes on."""

    def __init__(self) -> None:
        self.chance = random.Random(SEED)
        self.going_on = True
        self.confirmed: set[str] = set()
        self.came: set[str] = set()
        self.outcomes: Counter[Outcome] = Counter()
        self._number = 0

    def batch(self) -> list[OutMessage]:
        """Of any length; of a hundred messages one goes nowhere, and of five hundred one is not allowed."""
        return [self._message() for _ in range(self.chance.choice((1, 1, 5, 40, 80)))]

    def _message(self) -> OutMessage:
        self._number += 1
        kind = self.chance.randrange(500)
        changes = (
            {"exchange": "no-such-exchange"} if kind == 0 else {"routing_key": "nowhere"} if kind < 6 else {}
        )
        queue = self.chance.choice(("front", "single"))
        return message(self._number, queue, body=b"x" * self.chance.choice(SIZES), **changes)

    async def publish(self, publisher: Publisher) -> None:
        while self.going_on:
            batch = self.batch()
            while batch:
                outcomes = await publisher.publish(batch)
                self.outcomes.update(outcomes)
                pairs = list(zip(batch, outcomes, strict=True))
                assert all(_may_be(sent, outcome) for sent, outcome in pairs)
                self.confirmed |= {sent.message_id for sent, outcome in pairs if outcome is CONFIRMED}
                batch = [sent for sent, outcome in pairs if outcome is UNKNOWN and self.going_on]

    async def consume(self, consumer: Consumer) -> None:
        """Settle in any order, but all in the end."""
        held: list[Delivery] = []
        while deliveries := await consumer.batch(self.chance.randrange(1, 100)):
            self.came |= {str(delivery.message_id) for delivery in deliveries}
            held += deliveries
            self.chance.shuffle(held)
            kept = 0 if len(held) > 60 else self.chance.randrange(len(held))
            await consumer.settle(held[kept:])
            held = held[:kept]
            if consumer.unsettled <= len(held):
                await consumer.settle(held)
                held = []

    async def break_things(self, proxy: Proxy, consumers: list[Consumer]) -> None:
        async def end_a_channel() -> None:
            session = self.chance.choice(consumers)._session
            if isinstance(session, Session) and session.is_alive:
                await session.channel.basic_publish(b"", exchange="no-such-exchange")

        breaks: list[Callable[[], object]] = [
            proxy.cut,
            end_a_channel,
            lambda: proxy.inject(self.chance.randbytes(200)),
            lambda: proxy.cut_after(b"\x01\x00\x01\x00\x00\x10"),
        ]
        while self.going_on:
            pause = asyncio.get_running_loop().time() + self.chance.uniform(0.5, 4)
            await eventually(lambda until=pause: asyncio.get_running_loop().time() > until)  # type: ignore[misc]
            done = self.chance.choice(breaks)()
            if asyncio.iscoroutine(done):
                await asyncio.gather(done, return_exceptions=True)


def _may_be(sent: OutMessage, outcome: Outcome) -> bool:
    if sent.exchange == "no-such-exchange":
        return outcome in (REFUSED, UNKNOWN)
    return outcome in ((RETURNED, UNKNOWN) if sent.routing_key == "nowhere" else (CONFIRMED, UNKNOWN))


async def test_a_mixed_load_with_broken_connections_loses_nothing(room: Room, proxy: Proxy) -> None:
    await room.declare(queue_topology("front", "single"))
    soak, process = Soak(), psutil.Process()
    connections = [await room.connection(name, url=proxy.url) for name in ("publishing", "consuming")]
    publishers = [await room.publisher(connections[0], timeout=5.0) for _ in range(2)]
    consumers = [
        await room.consumer("front", 100, ack="front", connection=connections[1]),
        await room.consumer("single", 100, ack="single", connection=connections[1]),
    ]
    async with asyncio.TaskGroup() as group:
        consuming = [group.create_task(soak.consume(consumer)) for consumer in consumers]
        working = [group.create_task(soak.publish(publisher)) for publisher in publishers * 2]
        working.append(group.create_task(soak.break_things(proxy, consumers)))
        began, size = asyncio.get_running_loop().time(), process.memory_info().rss
        await eventually(
            lambda: asyncio.get_running_loop().time() - began > SECONDS or any(t.done() for t in working),
            within=SECONDS + 20,
        )
        soak.going_on = False
        await asyncio.wait(working)
        await eventually(lambda: soak.confirmed <= soak.came, within=60)
        await eventually(lambda: sum(consumer.unsettled for consumer in consumers) == 0, within=60)
        for consumer in consumers:
            await consumer.stop_taking()
        await asyncio.wait(consuming)
    assert min(connection.epoch for connection in connections) > SECONDS / 20, "too little was broken"
    assert soak.outcomes[CONFIRMED] > 20 * SECONDS, soak.outcomes
    assert soak.outcomes[RETURNED] > 0
    assert process.memory_info().rss - size < GROWTH
    assert [publisher.oldest_unconfirmed_age() for publisher in publishers] == [0.0, 0.0]
