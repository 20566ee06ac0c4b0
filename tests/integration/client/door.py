"""The far side of a client's queues, on a real broker: reads what clients send, and answers by hand."""

from __future__ import annotations

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
    status_queue,
)
from triumvir.contracts import codec
from triumvir.contracts.messages import Status, StatusName
from triumvir.contracts.names import order_key, status_id


@dataclass(frozen=True)
class Account:
    """A client that was added, and where it connects to."""

    name: str
    url: str


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

    async def close(self) -> None:
        await self._consumer.close()
        await self._publisher.close()
