"""The far side of a client's queues, on a real broker: reads what clients send, and answers by hand."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from triumvir.broker import (
    INTERNAL_EXCHANGE,
    ORDERS,
    Connection,
    Consumer,
    Delivery,
    Outcome,
    OutMessage,
    Publisher,
    client_topology,
    connect,
    core_topology,
    declare,
    status_queue,
)
from triumvir.broker.admin import BrokerAdmin
from triumvir.contracts import codec
from triumvir.contracts.messages import Status, StatusName
from triumvir.contracts.names import order_key, status_id


@dataclass(frozen=True)
class Account:
    """A client that was added, and where it connects to."""

    name: str
    url: str


@asynccontextmanager
async def added_account(broker_url: str, management_url: str) -> AsyncIterator[Account]:
    """A client with its permissions and its queue, as `triumvir clients add` makes it; removed afterwards."""
    vhost = urllib.parse.urlsplit(broker_url).path.removeprefix("/")
    name, password = f"shop-{vhost.removeprefix('test-')}", "pa:ss/@%"
    connection = await connect(broker_url, "test setup")
    await declare(connection, core_topology(quorum=False) + client_topology(name, quorum=False))
    await connection.close()
    async with BrokerAdmin(management_url) as admin:
        await admin.add_client(vhost, name, password)
        place = urllib.parse.urlsplit(broker_url)
        secret = urllib.parse.quote(password, safe="")
        yield Account(name, place._replace(netloc=f"{name}:{secret}@{place.hostname}:{place.port}").geturl())
        await admin.remove_client(name)


class Door:
    """Takes everything from ``orders``, and publishes statuses as the services would."""

    def __init__(self, connection: Connection) -> None:
        self._consumer = Consumer(connection, ORDERS, 100)
        self._publisher = Publisher(connection)
        self.came: list[Delivery] = []

    async def start(self) -> None:
        await self._consumer.start()

    async def next(self) -> Delivery:
        """The next message that came from any client."""
        (delivery,) = await self._consumer.batch(1)
        await self._consumer.settle([delivery])
        self.came.append(delivery)
        return delivery

    async def tell(
        self, account: Account, order_id: str, name: StatusName, number: int, **members: Any
    ) -> None:
        """Publish one status to a client's queue."""
        status = Status(order_id=order_id, status=name, sequence=number, at=datetime.now(UTC), **members)
        message = OutMessage(
            exchange=INTERNAL_EXCHANGE,
            routing_key=status_queue(account.name),
            message_id=status_id(order_key(account.name, order_id), name, number),
            type=Status.TYPE,
            correlation_id=order_key(account.name, order_id),
            body=codec.encode(status),
        )
        assert await self._publisher.publish([message]) == [Outcome.CONFIRMED]

    async def all_that_came(self, count: int) -> list[str]:
        """Message ids of everything that came, once these are ``count`` different ones."""
        ids: set[str] = set()
        while len(ids) < count:
            batch = await self._consumer.batch(100)
            ids |= {delivery.message_id or "" for delivery in batch}
            await self._consumer.settle(batch)
        return sorted(ids)

    async def close(self) -> None:
        await self._consumer.close()
        await self._publisher.close()
