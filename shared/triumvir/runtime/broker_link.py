"""A service's side of the broker: one connection to publish on, another to consume from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, Literal

from triumvir.broker import Connection, Consumer, Publisher, Topology, connect, declare
from triumvir.runtime.chassis import Chassis
from triumvir.runtime.loops import Loop

_CHECK_EVERY: Final = timedelta(seconds=5)


class BrokerLink:
    """Publisher and consumers of one process. Made by :func:`open_broker`."""

    def __init__(
        self, chassis: Chassis, publishing: Connection, consuming: Connection, topology: Topology
    ) -> None:
        self._chassis = chassis
        self._consuming = consuming
        self._topology = topology
        self._consumers: list[Consumer] = []
        timeout = chassis.settings.publish_timeout.total_seconds()
        self.publisher = Publisher(publishing, timeout=timeout)

    async def consume(
        self,
        queue: str,
        prefetch: int,
        *,
        ack: Literal["front", "single"] = "front",
        topology: Topology | None = None,
    ) -> Consumer:
        """Subscribes to a queue of ``topology`` (by default the link's own), watches over the subscription, and
        counts it for readiness.
        """
        if topology is not None:
            await declare(self._consuming, topology)
        consumer = Consumer(self._consuming, queue, prefetch, ack=ack, topology=topology or self._topology)
        await consumer.start()
        self._consumers.append(consumer)

        async def check() -> bool:
            await consumer.ensure_subscribed()
            return False

        self._chassis.add_loop(Loop(f"subscription {queue}", check, _CHECK_EVERY))
        self._chassis.add_readiness(f"consumer {queue}", lambda: _missing(consumer))
        return consumer

    async def stop_taking(self) -> None:
        """Cancels every subscription; what is in hand can still be settled."""
        await asyncio.gather(*(consumer.stop_taking() for consumer in self._consumers))

    async def close(self) -> None:
        """Closes consumers first: what they did not settle goes back to its queue."""
        await asyncio.gather(*(consumer.close() for consumer in self._consumers))
        await self.publisher.close()


async def _missing(consumer: Consumer) -> str | None:
    return None if consumer.subscribed else f"not subscribed to {consumer.queue}"


@asynccontextmanager
async def open_broker(chassis: Chassis, topology: Topology) -> AsyncIterator[BrokerLink]:
    """Connects twice and declares ``topology``. Raises BrokerError, or TopologyMismatch naming the difference."""
    url, name, transport = chassis.settings.broker_url, f"triumvir {chassis.name}", chassis.settings.transport
    publishing = await connect(url, f"{name} publish", transport=transport)
    consuming = await connect(url, f"{name} consume", transport=transport)
    link = BrokerLink(chassis, publishing, consuming, topology)
    try:
        await declare(publishing, topology)
        yield link
    finally:
        await link.close()
        await asyncio.gather(publishing.close(), consuming.close())
