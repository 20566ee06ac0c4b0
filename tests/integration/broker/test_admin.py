"""Provisioning of clients, and what a client may then do: write to ``orders``, read its own queue, nothing else."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import aiormq
import pytest
from aiormq import spec
from aiormq.abc import AbstractChannel
from aiormq.exceptions import ChannelAccessRefused, ChannelPreconditionFailed

from tests.integration.broker.room import Room, eventually, message, numbers, take
from triumvir.broker import (
    ALERTS,
    DEAD_EXCHANGE,
    INTERNAL_EXCHANGE,
    ORDERS,
    ORDERS_EXCHANGE,
    Outcome,
    client_topology,
    connect,
    core_topology,
    status_queue,
)
from triumvir.broker.admin import BrokerAdmin, QueueConsumer
from triumvir.errors import BrokerError, ConfigurationError

PASSWORD = "p@ss:/%wörd"


@dataclass
class Site:
    """A vhost with the whole topology and two clients, ``mine`` and ``other``; ``url`` is mine."""

    room: Room
    admin: BrokerAdmin
    vhost: str
    mine: str
    other: str

    def url_of(self, client: str, password: str = PASSWORD) -> str:
        parts = urlsplit(self.room.url)
        account = f"{client}:{quote(password, safe='')}"
        return parts._replace(netloc=f"{account}@{parts.hostname}:{parts.port}").geturl()

    @property
    def url(self) -> str:
        return self.url_of(self.mine)


@asynccontextmanager
async def answering(answer: bytes | None) -> AsyncIterator[str]:
    """The URL of what answers every request in these words, or with None not at all."""
    silence = asyncio.Event()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if answer is None:
            await silence.wait()
        writer.write(answer or b"")
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        yield f"http://guest:guest@127.0.0.1:{server.sockets[0].getsockname()[1]}"
        silence.set()


@pytest.fixture
async def admin(management_url: str) -> AsyncIterator[BrokerAdmin]:
    async with BrokerAdmin(management_url) as opened:
        yield opened


@pytest.fixture
async def site(room: Room, admin: BrokerAdmin) -> AsyncIterator[Site]:
    unique = secrets.token_hex(4)
    mine, other = f"shop-{unique}", f"shop-{unique}-2"
    vhost = urlsplit(room.url).path[1:]
    await room.declare(core_topology(quorum=False))
    for client in (mine, other):
        await room.declare(
            client_topology(client, quorum=False), client_topology(client, "web", quorum=False)
        )
        await admin.add_client(vhost, client, PASSWORD)
    yield Site(room, admin, vhost, mine, other)
    for client in (mine, other):
        await admin.remove_client(client)


Deed = Callable[[AbstractChannel, Site], Awaitable[object]]


def publish(exchange: str, routing_key: str, user_id: str | None = None) -> Deed:
    return lambda channel, _: channel.basic_publish(
        b"{}",
        exchange=exchange,
        routing_key=routing_key,
        properties=spec.Basic.Properties(user_id=user_id),
        mandatory=True,
    )


ALLOWED: dict[str, Deed] = {
    "submit": publish(ORDERS_EXCHANGE, ""),
    "submit with any routing key": publish(ORDERS_EXCHANGE, "agent.payments"),
    "read its own queue": lambda channel, site: channel.basic_get(status_queue(site.mine)),
    "read the queue of its instance": lambda channel, site: channel.basic_get(status_queue(site.mine, "web")),
    "look at its own queue": lambda channel, site: channel.queue_declare(
        status_queue(site.mine), passive=True
    ),
}
REFUSED: dict[str, Deed] = {
    "publish internally": publish(INTERNAL_EXCHANGE, "scheduler.replies"),
    "publish a status": publish(INTERNAL_EXCHANGE, "status.somebody"),
    "dead-letter": publish(DEAD_EXCHANGE, "orders.dead"),
    "publish by the default exchange": publish("", ORDERS),
    "publish by amq.fanout": publish("amq.fanout", ORDERS),
    "read the orders": lambda channel, _: channel.basic_get(ORDERS),
    "consume the orders": lambda channel, _: channel.basic_consume(ORDERS, _ignore),
    "read the dead orders": lambda channel, _: channel.basic_get("orders.dead"),
    "read the alerts": lambda channel, _: channel.basic_get(ALERTS),
    "read the replies": lambda channel, _: channel.basic_get("scheduler.replies"),
    "read another client's queue": lambda channel, site: channel.basic_get(status_queue(site.other)),
    "read the queue of another's instance": lambda channel, site: channel.basic_get(
        status_queue(site.other, "web")
    ),
    "purge the orders": lambda channel, _: channel.queue_purge(ORDERS),
    "purge another client's queue": lambda channel, site: channel.queue_purge(status_queue(site.other)),
    "delete its own queue": lambda channel, site: channel.queue_delete(status_queue(site.mine)),
    "delete another client's queue": lambda channel, site: channel.queue_delete(status_queue(site.other)),
    "delete the exchange": lambda channel, _: channel.exchange_delete(ORDERS_EXCHANGE),
    "declare a queue": lambda channel, _: channel.queue_declare("queue-of-my-own"),
    "declare a queue of its own prefix": lambda channel, site: channel.queue_declare(f"status.{site.mine}.x"),
    "declare an exchange": lambda channel, _: channel.exchange_declare("exchange-of-my-own"),
    "bind its queue to the orders": lambda channel, site: channel.queue_bind(
        status_queue(site.mine), ORDERS_EXCHANGE
    ),
    "bind its queue internally": lambda channel, site: channel.queue_bind(
        status_queue(site.mine), INTERNAL_EXCHANGE, routing_key="scheduler.replies"
    ),
    "unbind the orders": lambda channel, _: channel.queue_unbind(ORDERS, ORDERS_EXCHANGE),
    "bind exchanges": lambda channel, _: channel.exchange_bind(
        ORDERS_EXCHANGE, INTERNAL_EXCHANGE, routing_key="alerts"
    ),
}


async def _ignore(_: object) -> None: ...


@pytest.fixture
async def client_channel(site: Site) -> AsyncIterator[AbstractChannel]:
    async with aiormq.connect(site.url) as connection:
        yield await connection.channel()


@pytest.mark.parametrize("deed", ALLOWED.values(), ids=ALLOWED.keys())
async def test_f60_a_client_may(site: Site, client_channel: AbstractChannel, deed: Deed) -> None:
    await deed(client_channel, site)
    assert not client_channel.is_closed


@pytest.mark.parametrize("deed", REFUSED.values(), ids=REFUSED.keys())
async def test_f60_a_client_may_not(site: Site, client_channel: AbstractChannel, deed: Deed) -> None:
    with pytest.raises(ChannelAccessRefused):
        await deed(client_channel, site)


async def test_f60_a_forged_user_id_is_refused_by_the_broker_and_by_us(
    site: Site, client_channel: AbstractChannel
) -> None:
    with pytest.raises(ChannelPreconditionFailed, match="user_id"):
        await publish(ORDERS_EXCHANGE, "", user_id=site.other)(client_channel, site)
    publisher = await site.room.publisher(await site.room.connection(url=site.url))
    forged, honest = (
        message(number, exchange=ORDERS_EXCHANGE, user_id=user)
        for number, user in enumerate((site.other, site.mine))
    )
    assert await publisher.publish([forged, honest]) == [Outcome.REFUSED, Outcome.CONFIRMED]
    [order] = await take(await site.room.consumer(ORDERS), 1)
    assert (numbers([order]), order.user_id) == ([1], site.mine)


async def test_f60_what_the_broker_denies_is_refused_and_its_neighbours_pass(site: Site) -> None:
    publisher = await site.room.publisher(await site.room.connection(url=site.url))
    batch = [
        message(n, "scheduler.replies") if n == 5 else message(n, exchange=ORDERS_EXCHANGE) for n in range(20)
    ]
    outcomes = await publisher.publish(batch)
    assert outcomes == [Outcome.REFUSED if n == 5 else Outcome.CONFIRMED for n in range(20)]
    assert await site.room.look("scheduler.replies") == (0, 0)


async def test_a_client_consumes_its_status_queue_by_the_interface(site: Site) -> None:
    publisher = await site.room.publisher()
    assert await publisher.publish([message(1, status_queue(site.mine))]) == [Outcome.CONFIRMED]
    consumer = await site.room.consumer(
        status_queue(site.mine), connection=await site.room.connection("client", url=site.url)
    )
    deliveries = await take(consumer, 1)
    assert numbers(deliveries) == [1]
    await consumer.settle(deliveries)
    assert await consumer.ensure_subscribed()


async def test_f62_the_depth_of_a_known_queue_leaks_so_names_are_no_secret(
    site: Site, client_channel: AbstractChannel
) -> None:
    found = await client_channel.queue_declare(status_queue(site.other), passive=True)
    assert found.message_count == 0


async def test_f63_connections_and_channels_of_a_client_are_limited(site: Site) -> None:
    await site.admin.add_client(site.vhost, site.mine, PASSWORD, max_connections=2, max_channels=3)
    first, second = await site.room.connection(url=site.url), await site.room.connection(url=site.url)
    with pytest.raises(BrokerError, match="a limit is reached"):
        await connect(site.url, "third", timeout=60)
    channels = [
        await connection.channel(confirms=False, timeout=60) for connection in (first, second, second)
    ]
    await second.channel(confirms=False, timeout=60)
    assert [channel.is_closed for channel in channels] == [False, True, True]
    assert (first.epoch, second.epoch) == (1, 2)
    assert await (await site.room.publisher()).publish([message(1, ALERTS)]) == [Outcome.CONFIRMED]


async def test_clients_are_listed_with_their_limits(site: Site) -> None:
    await site.admin.add_client(site.vhost, site.mine, PASSWORD, max_connections=7, max_channels=9)
    found = {account.name: account for account in await site.admin.list_clients(site.vhost)}
    assert sorted(found) == sorted([site.mine, site.other])
    assert (found[site.mine].max_connections, found[site.mine].max_channels) == (7, 9)


async def test_a_rotated_password_is_the_only_one_that_works(site: Site) -> None:
    await site.admin.rotate_password(site.mine, "another one")
    with pytest.raises(BrokerError, match="wrong name or password"):
        await connect(site.url, "test", timeout=60)
    connection = await site.room.connection(url=site.url_of(site.mine, "another one"))
    assert connection.user == site.mine
    assert [account.name for account in await site.admin.list_clients(site.vhost)] == sorted(
        [site.mine, site.other]
    )


async def test_f64_a_removed_client_is_cut_off(site: Site) -> None:
    connection = await site.room.connection(url=site.url)
    await site.admin.remove_client(site.mine)
    await eventually(lambda: not connection.is_open)
    with pytest.raises(BrokerError, match="wrong name or password"):
        await connect(site.url, "test", timeout=60)
    await site.admin.remove_client(site.mine)
    assert [account.name for account in await site.admin.list_clients(site.vhost)] == [site.other]


async def test_a_user_that_is_no_client_is_never_touched(site: Site, management_url: str) -> None:
    administrator = urlsplit(management_url).username
    assert administrator is not None
    for attempt in (
        site.admin.add_client(site.vhost, administrator, "x"),
        site.admin.rotate_password(administrator, "x"),
        site.admin.remove_client(administrator),
    ):
        with pytest.raises(BrokerError, match="is no Triumvir client"):
            await attempt
    assert await site.admin.list_clients(site.vhost)


async def test_a_password_of_nobody_is_not_rotated(admin: BrokerAdmin) -> None:
    with pytest.raises(BrokerError, match="no client 'nobody-here'"):
        await admin.rotate_password("nobody-here", "x")


@pytest.mark.parametrize("name", ["", "Shop", "a.b", "a/b", "a b", ".*", "x" * 41, "shop\n"])
async def test_a_bad_name_of_a_client_is_refused(admin: BrokerAdmin, name: str) -> None:
    with pytest.raises(ConfigurationError, match="client"):
        await admin.add_client("/", name, "x")


async def test_an_empty_password_is_refused(admin: BrokerAdmin) -> None:
    with pytest.raises(BrokerError, match="empty password"):
        await admin.add_client("/", "shop-a", "")


async def test_vhosts_are_made_and_deleted_as_often_as_one_likes(admin: BrokerAdmin) -> None:
    vhost = f"cell/{secrets.token_hex(4)} ü"
    for _ in range(2):
        await admin.create_vhost(vhost)
    assert await admin.queue_depths(vhost) == {}
    for _ in range(2):
        await admin.delete_vhost(vhost)


async def test_depths_and_consumers_of_queues_are_seen(site: Site) -> None:
    await (await site.room.publisher()).publish(
        [message(1, ALERTS), message(2, ALERTS), message(3, "scheduler.replies")]
    )
    await take(await site.room.consumer("scheduler.replies", 33), 1)

    async def seen() -> bool:
        depths = await site.admin.queue_depths(site.vhost)
        alerts, replies = depths[ALERTS], depths["scheduler.replies"]
        return (alerts.ready, replies.unacknowledged, replies.consumers) == (2, 1, 1)

    await eventually(seen)

    user = urlsplit(site.room.url).username

    async def told() -> bool:
        consumers = await site.admin.consumers(site.vhost)
        return [(one.queue, one.prefetch, one.user) for one in consumers] == [("scheduler.replies", 33, user)]

    await eventually(told)


async def test_a_consumer_whose_channel_the_broker_does_not_know_yet_is_seen() -> None:
    """RabbitMQ writes what it has no statistics of as an empty list."""
    body = b'[{"queue": {"name": "orders"}, "consumer_tag": "t", "channel_details": [], "prefetch_count": 7}]'
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    async with answering(head.encode() + body) as url, BrokerAdmin(url) as admin:
        assert await admin.consumers("/") == [QueueConsumer("orders", "t", "", "", 7)]


async def test_wrong_credentials_are_named_without_the_password(management_url: str) -> None:
    parts = urlsplit(management_url)
    async with BrokerAdmin(f"http://nobody:canary@{parts.hostname}:{parts.port}") as admin:
        with pytest.raises(BrokerError, match="refused user 'nobody'") as error:
            await admin.list_clients("/")
    assert "canary" not in str(error.value)


async def test_an_api_that_is_not_there_names_the_plugin(site: Site) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    async with BrokerAdmin(f"http://guest:canary@127.0.0.1:{port}") as admin:
        with pytest.raises(BrokerError, match="plugin rabbitmq_management on") as error:
            await admin.list_clients("/")
    assert "canary" not in str(error.value)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi", "does not answer as"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
            "does not answer as",
        ),
        (b"HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\nbang", "500 bang"),
        (b"", "cannot be reached"),
        (None, "no answer in time"),
    ],
)
async def test_a_strange_answer_is_told_in_words(answer: bytes | None, complaint: str) -> None:
    timeout = 60.0 if answer is not None else 0.5
    async with answering(answer) as url, BrokerAdmin(url, timeout=timeout) as admin:
        with pytest.raises(BrokerError, match=complaint):
            await admin.list_clients("/")
