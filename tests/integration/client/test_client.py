"""The client against a real broker; the services' side is played by hand."""

from __future__ import annotations

import asyncio
import urllib.parse

import orjson
import pytest
from structlog.testing import capture_logs

from tests.integration.client.door import Account, Door
from tests.servers import ServerSet
from tests.waiting import eventually, eventually_blocking
from triumvir.broker import connect, core_topology, declare, status_queue
from triumvir.client import Client, Submission
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import Status
from triumvir.errors import BrokerError, ContractError, OrderRejected, UnknownOrder
from triumvir.telemetry import events, tracing


async def test_a_submission_carries_its_identity_and_a_trace(
    client: Client, account: Account, door: Door
) -> None:
    await client.submit("order-fulfilment", {"a": 1}, order_id="1", priority=5, progress=True)
    came = await door.next()
    assert came.message_id == f"{account.name}/1/submit"
    assert came.correlation_id == f"{account.name}/1"
    assert came.user_id == account.name
    assert came.reply_to == status_queue(account.name)
    assert came.type == "order.submit.v1"
    assert tracing.adopt(came.headers) is not None
    assert orjson.loads(came.body) == {
        "order_id": "1", "workflow": "order-fulfilment", "payload": {"a": 1}, "priority": 5, "progress": True
    }  # fmt: skip


async def test_statuses_lead_to_the_result(client: Client, account: Account, door: Door) -> None:
    order = await client.submit("w", {}, order_id="1")
    await door.next()
    await door.tell(account, "1", "received", 1)
    await door.tell(account, "1", "completed", 2, result=JsonText(text='{"ok":true}'))
    assert [status.status async for status in order.statuses()] == ["received", "completed"]
    assert await order.result(timeout=60) == {"ok": True}


async def test_a_rejection_raises_with_its_reason(client: Client, account: Account, door: Door) -> None:
    order = await client.submit("w", {}, order_id="1")
    came = await door.next()
    await door.tell(
        account, "", "rejected", 0, submission=came.message_id, detail="unknown_workflow: w: no; apply it"
    )
    with pytest.raises(OrderRejected, match="unknown_workflow"):
        await order.result(timeout=60)


async def test_a_rejected_order_may_be_submitted_again(client: Client, account: Account, door: Door) -> None:
    order = await client.submit("w", {}, order_id="1")
    await door.tell(account, "1", "rejected", 0, detail="full: orders: too many are open; try later")
    with pytest.raises(OrderRejected):
        await order.result(timeout=60)
    again = await client.submit("w", {}, order_id="1")
    await door.tell(account, "1", "completed", 1)
    assert await again.result(timeout=60) is None


async def test_other_data_under_the_same_id_is_refused_at_once(client: Client) -> None:
    order = await client.submit("w", {"a": 1}, order_id="1")
    assert await client.submit("w", {"a": 1}, order_id="1") is order
    with pytest.raises(ContractError, match="conflict"):
        await client.submit("w", {"a": 2}, order_id="1")


async def test_an_attached_order_asks_for_everything(client: Client, account: Account, door: Door) -> None:
    waiting = asyncio.create_task(client.order("1").result(timeout=60))
    query = await door.next()
    assert query.type == "order.query.v1"
    assert orjson.loads(query.body) == {"order_id": "1", "from_sequence": 1}
    await door.tell(account, "1", "unknown_order", 0, submission=query.message_id)
    with pytest.raises(UnknownOrder):
        await waiting


async def test_a_cancel_goes_out_with_its_reason(client: Client, account: Account, door: Door) -> None:
    await client.order("1").cancel("changed my mind")
    came = await door.next()
    assert (came.type, came.user_id) == ("order.cancel.v1", account.name)
    assert orjson.loads(came.body) == {"order_id": "1", "reason": "changed my mind"}


async def test_a_feed_sees_orders_that_nobody_holds(client: Client, account: Account, door: Door) -> None:
    await door.tell(account, "elsewhere", "received", 1)
    async for status in client.statuses():
        assert (status.order_id, status.sequence) == ("elsewhere", 1)
        break


async def test_many_are_told_in_order_and_a_bad_one_stands_alone(client: Client) -> None:
    submissions = [Submission("w", {"n": n}, str(n) if n != 250 else "no blanks") for n in range(450)]
    told = [submitted async for submitted in client.submit_many(submissions)]
    assert [submitted.submission for submitted in told] == submissions
    bad = [submitted for submitted in told if submitted.error is not None]
    assert [submitted.submission.order_id for submitted in bad] == ["no blanks"]
    assert isinstance(bad[0].error, ContractError)


async def test_a_message_that_is_no_status_stops_nobody(
    client: Client, account: Account, door: Door, broker_url: str
) -> None:
    order = await client.submit("w", {}, order_id="1")
    await door.tell(account, "1", "received", 0)
    connection = await connect(broker_url, "test")
    channel = await connection.channel(confirms=False, timeout=5)
    await channel.basic_publish(b"\xff{", exchange="triumvir", routing_key=status_queue(account.name))
    await door.tell(account, "1", "completed", 1)
    assert await order.result(timeout=60) is None
    await connection.close()


async def test_what_was_handed_over_is_acknowledged(account: Account, door: Door, broker_url: str) -> None:
    async with Client(account.url) as client:
        order = await client.submit("w", {}, order_id="1")
        await door.tell(account, "1", "completed", 1)
        await order.result(timeout=60)
    connection = await connect(broker_url, "test")
    channel = await connection.channel(confirms=False, timeout=5)
    left = await channel.queue_declare(status_queue(account.name), passive=True)
    assert left.message_count == 0
    await connection.close()


async def test_a_cut_connection_loses_nothing_and_asks_again(
    client: Client, account: Account, door: Door, server_set: ServerSet
) -> None:
    order = await client.submit("w", {}, order_id="1")
    assert (await door.next()).type == "order.submit.v1"
    seen: list[Status] = []

    async def watch() -> None:
        async for status in order.statuses():
            seen.append(status)  # noqa: PERF401 - each as it comes

    watching = asyncio.create_task(watch())
    await door.tell(account, "1", "received", 1)
    await eventually(lambda: seen)
    await asyncio.to_thread(cut_connections, server_set, account.name)
    await door.tell(account, "1", "retrying", 2)
    query = await door.next()
    assert query.type == "order.query.v1"
    assert orjson.loads(query.body)["from_sequence"] in (2, 3)
    await door.tell(account, "1", "retrying", 2)
    await door.tell(account, "1", "completed", 3)
    await watching
    assert [status.sequence for status in seen] == [1, 2, 3]


async def test_a_second_reader_of_one_queue_is_warned(client: Client, account: Account, door: Door) -> None:
    await door.tell(account, "1", "completed", 1)
    await client.order("1").result(timeout=60)
    async with Client(account.url) as second:
        with capture_logs() as logged:
            waiting = asyncio.create_task(second.order("2").result())
            await eventually(lambda: second._desk._follower is not None)
        assert events.STATUS_QUEUE_SHARED in [line["event"] for line in logged]
        waiting.cancel()


async def test_a_client_without_a_queue_is_told_how_to_get_one(
    broker_url: str, account: Account, server_set: ServerSet
) -> None:
    async with Client(account.url, instance="two") as client:
        order = await client.submit("w", {}, order_id="1")
        with pytest.raises(BrokerError, match="clients add"):
            await order.result(timeout=60)


async def test_a_returned_submission_is_not_confirmed(broker_url: str) -> None:
    connection = await connect(broker_url, "test")
    topology = core_topology(quorum=False)
    await declare(connection, topology.__class__(exchanges=topology.exchanges))
    await connection.close()
    async with Client(broker_url) as client:
        with pytest.raises(BrokerError, match="no queue is bound"):
            await client.submit("w", {}, order_id="1")


async def test_a_wrong_password_is_said_in_words(account: Account) -> None:
    place = urllib.parse.urlsplit(account.url)
    wrong = place._replace(netloc=f"{account.name}:wrong@{place.hostname}:{place.port}").geturl()
    with pytest.raises(BrokerError, match="wrong name or password"):
        async with Client(wrong):
            pass


async def test_a_closed_client_ends_what_waits_for_it(account: Account, door: Door) -> None:
    async with Client(account.url) as client:
        order = await client.submit("w", {}, order_id="1")
        waiting = asyncio.create_task(order.result())
        await eventually(lambda: client._desk._follower is not None)
    with pytest.raises(BrokerError, match="closed"):
        await waiting


def cut_connections(server_set: ServerSet, user: str) -> None:
    """Have the broker close both connections of a user, once it lists them."""

    def listed() -> list[dict[str, str]]:
        found = [
            each for each in orjson.loads(server_set.manage("GET", "connections")) if each.get("user") == user
        ]
        return found if len(found) == 2 else []

    for connection in eventually_blocking(listed, what="the list of connections"):
        server_set.manage("DELETE", f"connections/{urllib.parse.quote(connection['name'], safe='')}")
