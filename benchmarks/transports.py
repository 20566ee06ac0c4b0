"""What one message costs its process, by transport: ``python -m benchmarks.transports``.

Publishes on one connection and consumes on another, in batches as services have them, on a private broker; the
transports take turns. CPU is that of this process alone, in microseconds per message; medians of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from statistics import median
from typing import Final, get_args

import uvloop

from triumvir.broker import (
    INTERNAL_EXCHANGE,
    REPLIES,
    Connection,
    Consumer,
    Outcome,
    OutMessage,
    Publisher,
    connect,
    core_topology,
    declare,
)
from triumvir.local.broker import PrivateBroker
from triumvir.settings import Transport

BATCH: Final = 50
PREFETCH: Final = 400
BODY: Final = b'{"order_id":"0123456789","step":1,"result":{"reserved":"%060d"}}' % 0


def _message(number: int) -> OutMessage:
    return OutMessage(
        exchange=INTERNAL_EXCHANGE,
        routing_key=REPLIES,
        message_id=f"shop-a/{number}/reserve/1/reply",
        type="step.reply.v1",
        correlation_id=f"shop-a/{number}",
        body=BODY,
        headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    )


async def _publish(connection: Connection, messages: list[OutMessage]) -> float:
    publisher = Publisher(connection, timeout=60.0)
    await publisher.publish(messages[:BATCH])
    began = time.process_time()
    for start in range(BATCH, len(messages), BATCH):
        outcomes = await publisher.publish(messages[start : start + BATCH])
        if set(outcomes) != {Outcome.CONFIRMED}:
            raise RuntimeError(f"not every message was confirmed: {outcomes}")
    spent = time.process_time() - began
    await publisher.close()
    return spent / (len(messages) - BATCH)


async def _consume(connection: Connection, count: int) -> float:
    consumer, taken = Consumer(connection, REPLIES, PREFETCH), 0
    began = time.process_time()
    await consumer.start()
    while taken < count:
        batch = await consumer.batch(PREFETCH // 2)
        taken += len(batch)
        await consumer.settle(batch)
    spent = time.process_time() - began
    await consumer.close()
    return spent / count


async def _round(url: str, transport: Transport, count: int) -> tuple[float, float]:
    connections = [await connect(url, name, transport=transport) for name in ("publishing", "consuming")]
    try:
        messages = [_message(number) for number in range(count)]
        return await _publish(connections[0], messages), await _consume(connections[1], count)
    finally:
        await asyncio.gather(*(connection.close() for connection in connections))


async def _run(url: str, rounds: int, count: int) -> None:
    connection = await connect(url, "declaring")
    await declare(connection, core_topology())
    await connection.close()
    spent: dict[str, list[tuple[float, float]]] = {transport: [] for transport in get_args(Transport)}
    for _ in range(rounds):
        for transport in get_args(Transport):
            spent[transport].append(await _round(url, transport, count))
    print(f"{'transport':<10} {'publish':>10} {'consume':>10}   us of CPU per message")
    for transport, figures in spent.items():
        published, consumed = (median(each) * 1e6 for each in zip(*figures, strict=True))
        print(f"{transport:<10} {published:>10.1f} {consumed:>10.1f}")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transports", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds; the transports take turns in each")
    parser.add_argument("--messages", type=int, default=5000, help="messages of a round")
    options = parser.parse_args()
    with PrivateBroker() as broker:
        uvloop.run(_run(broker.url, options.rounds, options.messages))


if __name__ == "__main__":
    main()
