"""F53: the same order id again, in all its four ways, at the same moment, at two submitters."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.faults.cluster import Cluster
from tests.waiting import eventually
from triumvir.broker import ORDERS_EXCHANGE, Outcome, OutMessage, Publisher, client_topology, connect, declare
from triumvir.broker.admin import BrokerAdmin
from triumvir.client import Client
from triumvir.contracts.messages import OrderSubmit

pytestmark = pytest.mark.slow
COPIES = 20


@pytest.fixture
async def other(cluster: Cluster) -> AsyncIterator[Client]:
    """Another client of the same system."""
    name = cluster.client_name.replace("shop", "rival")
    connection = await connect(cluster.settings.broker_url, "rival's set-up")
    await declare(connection, client_topology(name, quorum=False))
    await connection.close()
    async with BrokerAdmin(cluster.settings.management_url) as admin:
        await admin.add_client(cluster.vhost, name, "rival")
    place = urllib.parse.urlsplit(cluster.settings.broker_url)
    url = place._replace(netloc=f"{name}:rival@{place.hostname}:{place.port}").geturl()
    async with Client(url) as client:
        yield client


async def test_f53_resubmissions_of_every_kind_at_once(cluster: Cluster, other: Client) -> None:
    await cluster.start()
    await (await cluster.add("submitter", "second submitter")).ready()
    orders = [f"again-{n}" for n in range(COPIES)]
    first, theirs, raw = await asyncio.gather(
        asyncio.gather(*(cluster.load.submit_one(order_id) for order_id in orders)),
        asyncio.gather(
            *(other.submit("trade", {"ask": {}, "mine": True}, order_id=order_id) for order_id in orders)
        ),
        asyncio.gather(*(send_raw(cluster, orders) for _ in range(3))),
    )
    assert all(outcome is Outcome.CONFIRMED for outcomes in raw for outcome in outcomes)
    for order in (*first, *theirs):
        await order.result(timeout=60)
    dead = [f"{cluster.client_name}/{order_id}/other" for order_id in orders]
    await eventually_dead(cluster, COPIES)
    await cluster.assert_sound(expected_dead=dead)
    states = await cluster.states()
    assert len(states) == 2 * COPIES
    assert set(states.values()) == {"processed"}
    rejected = [
        status
        for statuses in cluster.load.received.values()
        for status in statuses
        if status.status == "rejected"
    ]
    assert {status.submission for status in rejected} == set(dead)
    assert all("conflict" in (status.detail or "") for status in rejected)
    assert await kept_payloads(cluster) == {'{"ask":{}}'}


async def send_raw(cluster: Cluster, orders: list[str]) -> list[Outcome]:
    """The same again, as after a lost answer, and under the same id something else."""
    connection = await connect(cluster.client_url, "resubmitting")
    publisher = Publisher(connection)
    try:
        return await publisher.publish(
            [
                message
                for order_id in orders
                for message in (
                    submission(cluster, order_id, {"ask": {}}, "submit"),
                    submission(cluster, order_id, {"ask": {}, "other": 1}, "other"),
                )
            ]
        )
    finally:
        await publisher.close()
        await connection.close()


def submission(cluster: Cluster, order_id: str, payload: dict[str, Any], kind: str) -> OutMessage:
    key = f"{cluster.client_name}/{order_id}"
    body = json.dumps({"order_id": order_id, "workflow": "trade", "payload": payload}).encode()
    return OutMessage(
        ORDERS_EXCHANGE, "", f"{key}/{kind}", OrderSubmit.TYPE, key, body, user_id=cluster.client_name
    )  # fmt: skip


async def eventually_dead(cluster: Cluster, count: int) -> None:
    """One letter for each conflicting message: the same message has the same letter."""

    async def look() -> Any:
        return await cluster.database.fetchval("select count(*) = $1 from dead_letters", count)

    await eventually(look, within=30, what=f"{count} dead letters")


async def kept_payloads(cluster: Cluster) -> set[str]:
    rows = await cluster.database.fetch(
        "select distinct payload from order_documents where client = $1", cluster.client_name
    )
    return {json.dumps(json.loads(row["payload"]), separators=(",", ":")) for row in rows}
