"""F12: messages that nobody can read, and an order that ends every process that works on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from tests.faults.cluster import Cluster
from tests.faults.pressure import said
from triumvir.broker import (
    INTERNAL_EXCHANGE,
    ORDERS,
    ORDERS_EXCHANGE,
    REPLIES,
    Outcome,
    OutMessage,
    Publisher,
    agent_queue,
    connect,
    status_queue,
)
from triumvir.contracts.messages import OrderSubmit, StepExecute, StepSucceeded
from triumvir.runtime.crash import EXIT_CODE
from triumvir.telemetry import events

pytestmark = pytest.mark.slow
GOOD: Final = 200
BODIES: Final = (b"{", b"\xff\xfe", b'{"a": NaN}', b"[" * 100_000)


def poison(queue: str, type_: str, *, sender: str | None = None) -> list[OutMessage]:
    """One message for each body that nobody can read."""
    exchange, key = (ORDERS_EXCHANGE, "") if queue == ORDERS else (INTERNAL_EXCHANGE, queue)
    back = None if sender is None else status_queue(sender)
    return [
        OutMessage(exchange, key, f"poison/{queue}/{n}", type_, "", body, reply_to=back, user_id=sender)
        for n, body in enumerate(BODIES)
    ]


async def send(url: str, messages: Sequence[OutMessage]) -> None:
    connection = await connect(url, "poison")
    publisher = Publisher(connection)
    assert await publisher.publish(messages) == [Outcome.CONFIRMED] * len(messages)
    await publisher.close()
    await connection.close()


async def test_f12_messages_that_nobody_can_read_are_set_aside_among_good_ones(cluster: Cluster) -> None:
    await cluster.start()
    orders = poison(ORDERS, OrderSubmit.TYPE, sender=cluster.client_name)
    inside = poison(REPLIES, StepSucceeded.TYPE) + poison(agent_queue("goods"), StepExecute.TYPE)
    await cluster.load.submit(GOOD // 2, "good")
    await send(cluster.client_url, orders)
    await send(cluster.settings.broker_url, inside)
    await cluster.load.submit(GOOD // 2, "good")
    ids = [message.message_id for message in [*orders, *inside]]
    await cluster.assert_sound(expected_dead=ids)
    rows = await cluster.database.fetch("select message_id, body from dead_letters")
    kept = {row["message_id"]: row["body"] for row in rows}
    assert kept == {message.message_id: message.body for message in [*orders, *inside]}, "byte by byte"
    told = {status.submission for status in cluster.load.received[f"{cluster.client_name}/"]}
    assert told == {message.message_id for message in orders}, "the sender was told, and nobody else"


async def test_f12_an_order_that_ends_every_agent_is_given_up_and_its_neighbours_complete(
    cluster: Cluster,
) -> None:
    """Neighbours that were being called whenever an agent ended are not given up with it."""
    await cluster.start()
    agent = cluster.services["agent"]
    await cluster.load.submit(20, "good")
    deadly = await cluster.load.submit_one("deadly", {"charge": {"die": True}})
    await cluster.load.submit(20, "good")
    assert await agent.dies(times=3)
    await cluster.load.submit(20, "good")
    await cluster.assert_sound()
    assert (await cluster.states())[deadly.key] == "compensated"
    assert set(agent.exits) == {EXIT_CODE}
    assert said(cluster, "agent", events.REQUEST_SUSPECTED), "what may have ended an agent was called alone"
    attempts = cluster.settings.max_failures + 1
    assert len(agent.exits) <= attempts * (cluster.settings.max_retries + 1), "no more than its requests"
