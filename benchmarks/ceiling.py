"""The raw ceiling: the same nine messages by bare aio-pika, one at a time, with no database and no promises.

Two processes: a coordinator (an order comes in: status, request, reply, … status) and an agent that answers.
What the suite keeps in Postgres travels in the messages here. Persistent, mandatory, confirmed, quorum queues;
each message is published and acknowledged by itself, up to ``PREFETCH`` orders at once.

``python -m benchmarks.ceiling coordinator|agent URL READY-FILE`` runs one of them until SIGTERM.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any, Final

import aio_pika
import orjson
import uvloop
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue

from benchmarks.sample import STEPS

ORDERS: Final = "raw.orders"
REQUESTS: Final = "raw.requests"
REPLIES: Final = "raw.replies"
STATUSES: Final = "raw.statuses"
ROLES: Final = ("coordinator", "agent")
PREFETCH: Final = 100


async def declare(channel: AbstractChannel, name: str) -> AbstractQueue:
    """A durable quorum queue."""
    return await channel.declare_queue(name, durable=True, arguments={"x-queue-type": "quorum"})


class Publishing:
    """One message at a time, waiting for its confirm."""

    def __init__(self, channel: AbstractChannel) -> None:
        self._channel = channel

    async def send(self, queue: str, body: dict[str, Any]) -> None:
        message = aio_pika.Message(
            orjson.dumps(body),
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            content_type="application/json",
            correlation_id=body["order_id"],
            message_id=f"{body['order_id']}/{queue}/{body.get('step', 0)}/{body.get('sequence', 0)}",
        )
        await self._channel.default_exchange.publish(message, routing_key=queue, mandatory=True)

    async def on_order(self, incoming: AbstractIncomingMessage) -> None:
        """Submitted: tell the client, ask for the first step."""
        async with incoming.process():
            order = orjson.loads(incoming.body)
            await self.send(STATUSES, _status(order, "received", 1))
            await self.send(REQUESTS, _request(order, 0))

    async def on_reply(self, incoming: AbstractIncomingMessage) -> None:
        """A step is done: ask for the next, or tell the client that it was the last."""
        async with incoming.process():
            reply = orjson.loads(incoming.body)
            step = reply["step"] + 1
            if step < len(STEPS):
                await self.send(REQUESTS, _request(reply, step))
            else:
                await self.send(STATUSES, _status(reply, "completed", 2))

    async def on_request(self, incoming: AbstractIncomingMessage) -> None:
        """The agent's part."""
        async with incoming.process():
            request = orjson.loads(incoming.body)
            quantity = request["payload"]["quantity"]
            await self.send(
                REPLIES, {**request, "result": {"done": request["operation"], "quantity": quantity}}
            )


def _request(order: dict[str, Any], step: int) -> dict[str, Any]:
    kept = {"order_id": order["order_id"], "payload": order["payload"]}
    return {**kept, "step": step, "operation": STEPS[step]}


def _status(order: dict[str, Any], status: str, sequence: int) -> dict[str, Any]:
    result = order.get("result") if status == "completed" else None
    return {"order_id": order["order_id"], "status": status, "sequence": sequence, "result": result}


async def run(role: str, url: str, ready: Path) -> None:
    """Serves one role until SIGTERM; writes ``ready`` once it consumes."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with await aio_pika.connect_robust(url) as connection:
        channel = await connection.channel(on_return_raises=True)
        await channel.set_qos(prefetch_count=PREFETCH)
        publishing = Publishing(channel)
        queues = {name: await declare(channel, name) for name in (ORDERS, REQUESTS, REPLIES, STATUSES)}
        if role == "coordinator":
            await queues[ORDERS].consume(publishing.on_order)
            await queues[REPLIES].consume(publishing.on_reply)
        else:
            await queues[REQUESTS].consume(publishing.on_request)
        await asyncio.to_thread(ready.write_text, "ready")
        await stopping.wait()


if __name__ == "__main__":
    uvloop.run(run(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
