"""F53: the same order id again, in all its four ways, at the same moment, at two submitters."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from tests.faults.cluster import Cluster
from tests.waiting import eventually_true
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
    await start(cluster)
    cluster.load.collect(other)
    ids = [f"again-{n}" for n in range(COPIES)]
    first = [await cluster.load.submit_one(order_id) for order_id in ids]
    await eventually_true(partial(_accepted, cluster, COPIES), what="the first submissions accepted")
    theirs, raw = await asyncio.gather(
        asyncio.gather(
            *(other.submit("trade", {"ask": {}, "mine": 1}, order_id=order_id) for order_id in ids)
        ),
        asyncio.gather(*(send_raw(cluster, ids) for _ in range(3))),
    )
    assert all(outcome is Outcome.CONFIRMED for outcomes in raw for outcome in outcomes)
    for order in (*first, *theirs):
        await order.result(timeout=60)
    dead = {f"{cluster.client_name}/{order_id}/other" for order_id in ids}
    await eventually_true(partial(_set_aside, cluster, COPIES), within=60, what="letters of all conflicts")
    await cluster.assert_sound(expected_dead=list(dead))
    states = await cluster.states()
    assert len(states) == 2 * COPIES
    assert set(states.values()) == {"processed"}
    refusals = refused(cluster)
    assert set(refusals) == dead
    assert all("conflict" in detail for detail in refusals.values())
    assert await kept_payloads(cluster) == {'{"ask":{}}'}


async def test_f53_of_two_different_orders_with_one_id_the_first_wins(cluster: Cluster) -> None:
    """Who is first is open; one is an order, and the other is refused, at whichever submitter it arrives."""
    await start(cluster)
    ids = [f"race-{n}" for n in range(COPIES)]
    await asyncio.gather(*(send_raw(cluster, ids) for _ in range(3)))
    await eventually_true(partial(_set_aside, cluster, COPIES), within=60, what="letters of the losers")
    keys = [f"{cluster.client_name}/{order_id}" for order_id in ids]
    await cluster.assert_sound(
        expected_dead=[f"{key}/{kind}" for key in keys for kind in ("submit", "other")]
    )
    assert set((await cluster.states()).values()) == {"processed"}
    assert len(await cluster.states()) == COPIES
    losers = refused(cluster)
    assert {message_id.rpartition("/")[0] for message_id in losers} == set(keys)
    assert len(losers) == COPIES


async def start(cluster: Cluster) -> None:
    """Everything, and a second submitter."""
    await cluster.start()
    await (await cluster.add("submitter", "second submitter")).ready()


def refused(cluster: Cluster) -> dict[str, str]:
    """What the clients were told of refused submissions, by message id."""
    told = [status for statuses in cluster.load.received.values() for status in statuses]
    return {status.submission or "": status.detail or "" for status in told if status.status == "rejected"}


async def _accepted(cluster: Cluster, count: int) -> bool:
    return len(await cluster.states()) == count


async def _set_aside(cluster: Cluster, count: int) -> bool:
    """One letter for each conflicting message: the same message has the same letter."""
    return bool(await cluster.database.fetchval("select count(*) = $1 from dead_letters", count))


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


async def kept_payloads(cluster: Cluster) -> set[str]:
    rows = await cluster.database.fetch(
        "select distinct payload from order_documents where client = $1", cluster.client_name
    )
    return {json.dumps(json.loads(row["payload"]), separators=(",", ":")) for row in rows}
