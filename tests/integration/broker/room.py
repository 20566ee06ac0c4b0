"""What the tests of the broker room share. The conformance tests use the interface alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import aiormq
from aiormq.abc import AbstractChannel

from tests import waiting
from triumvir.broker import (
    INTERNAL_EXCHANGE,
    Binding,
    Connection,
    Consumer,
    Delivery,
    ExchangeSpec,
    OutMessage,
    Publisher,
    QueueSpec,
    Topology,
    connect,
    declare,
)
from triumvir.settings import Transport

DEADLINE = 60.0
"""Seconds that anything may take in these tests."""


TRANSPORTS: tuple[Transport, ...] = ("fast", "stock")
"""Every conformance test runs on each."""


class Room:
    """Connections, publishers and consumers of one test at one vhost, closed in reverse order at its end."""

    def __init__(self, url: str, transport: Transport, stack: AsyncExitStack) -> None:
        self.url = url
        self.transport = transport
        self._stack = stack
        self._consuming: Connection | None = None

    async def connection(self, name: str = "test", *, url: str | None = None, **options: Any) -> Connection:
        connection = await connect(url or self.url, name, transport=self.transport, **options)
        assert connection.transport == self.transport
        self._stack.push_async_callback(connection.close)
        return connection

    async def publisher(self, connection: Connection | None = None, **options: Any) -> Publisher:
        publisher = Publisher(connection or await self.connection("publishing"), **options)
        self._stack.push_async_callback(publisher.close)
        return publisher

    async def consumer(
        self, queue: str, prefetch: int = 100, *, connection: Connection | None = None, **options: Any
    ) -> Consumer:
        if connection is None:
            connection = self._consuming = self._consuming or await self.connection("consuming")
        consumer = Consumer(connection, queue, prefetch, **options)
        await consumer.start()
        self._stack.push_async_callback(consumer.close)
        return consumer

    async def declare(self, *topologies: Topology) -> None:
        connection = await connect(self.url, "declaring")
        try:
            for topology in topologies:
                await declare(connection, topology)
        finally:
            await connection.close()

    async def raw_channel(self, url: str | None = None) -> AbstractChannel:
        """A channel of the bare client library, as a foreign client or an operator would have one."""
        connection = await aiormq.connect(url or self.url)
        self._stack.push_async_callback(connection.close)
        return await connection.channel()

    async def look(self, queue: str) -> tuple[int, int]:
        """Messages ready and consumers of ``queue``, exactly as of now."""
        connection = await aiormq.connect(self.url)
        try:
            found = await (await connection.channel()).queue_declare(queue, passive=True)
            return found.message_count or 0, found.consumer_count or 0
        finally:
            await connection.close()


def queue_topology(*names: str, **arguments: Any) -> Topology:
    """Queues that the internal exchange routes to; ``x_max_length=2`` becomes the argument ``x-max-length``."""
    table = tuple(sorted((name.replace("_", "-"), value) for name, value in arguments.items()))
    return Topology(
        exchanges=(ExchangeSpec(INTERNAL_EXCHANGE, "direct"),),
        queues=tuple(QueueSpec(name, table) for name in names),
        bindings=tuple(Binding(INTERNAL_EXCHANGE, name, name) for name in names),
    )


def message(number: int | str, queue: str = "work", **changes: Any) -> OutMessage:
    fields: dict[str, Any] = {
        "exchange": INTERNAL_EXCHANGE,
        "routing_key": queue,
        "message_id": f"shop-a/{number}/submit",
        "type": "order.submit.v1",
        "correlation_id": f"shop-a/{number}",
        "body": b'{"number":"%s"}' % str(number).encode(),
    }
    return OutMessage(**fields | changes)


def numbers(deliveries: Sequence[Delivery]) -> list[int]:
    """The numbers that ``message`` put into the bodies."""
    return [int(delivery.body.split(b'"')[3]) for delivery in deliveries]


async def take(
    consumer: Consumer, count: int, *, limit: int = 1000, within: float = DEADLINE
) -> list[Delivery]:
    """Exactly ``count`` deliveries, settling none."""
    taken: list[Delivery] = []
    async with asyncio.timeout(within):
        while len(taken) < count:
            taken += await consumer.batch(min(limit, count - len(taken)))
    return taken


async def take_all(consumer: Consumer, wanted: set[int], *, within: float = DEADLINE) -> list[int]:
    """Settle deliveries until each number of ``wanted`` has come; all numbers that came, with their repeats."""
    came: list[int] = []
    async with asyncio.timeout(within):
        while not wanted <= set(came):
            deliveries = await consumer.batch(1000)
            came += numbers(deliveries)
            await consumer.settle(deliveries)
    return came


async def eventually(condition: Callable[[], bool | Awaitable[bool]], *, within: float = DEADLINE) -> None:
    """Return as soon as ``condition`` holds. AssertionError after ``within`` seconds."""
    await waiting.eventually_true(lambda: _holds(condition), within=within)


async def _holds(condition: Callable[[], bool | Awaitable[bool]]) -> bool:
    result = condition()
    return result if isinstance(result, bool) else await result
