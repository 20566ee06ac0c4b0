"""Connecting, in words; coming back, unaided."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import structlog
from yarl import URL

from tests.integration.broker.proxy import Proxy
from tests.integration.broker.room import Room, eventually, message, queue_topology, take_all
from triumvir.broker import Outcome, Publisher, connect, connection
from triumvir.broker.fast.stream import Streams
from triumvir.errors import BrokerError
from triumvir.telemetry import events

CANARY = "pass@:/%word#?"


def with_account(url: str, user: str, password: str) -> str:
    parts = urlsplit(url)
    netloc = f"{quote(user, safe='')}:{quote(password, safe='')}@{parts.hostname}:{parts.port}"
    return parts._replace(netloc=netloc).geturl()


async def free_port() -> int:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


async def test_f71_no_failure_shows_the_password(broker_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    refused = with_account(broker_url, "nobody", CANARY)
    absent = f"amqp://nobody:{quote(CANARY, safe='')}@127.0.0.1:{await free_port()}/"
    unresolved = f"amqp://nobody:{quote(CANARY, safe='')}@no-such-host.invalid/"
    said: list[str] = []
    with structlog.testing.capture_logs() as logs:
        for url in (refused, absent, unresolved, f"http://nobody:{CANARY}@host/", f"amqp://nobody:{CANARY}"):
            with pytest.raises(BrokerError) as error:
                await connect(url, "test", timeout=30)
            said.append(str(error.value))
            assert error.value.__cause__ is None
    for text in (*said, caplog.text, str(logs)):
        assert CANARY not in text
        assert quote(CANARY, safe="") not in text
    assert "refused user 'nobody'" in said[0]
    assert "cannot be reached" in said[1]


async def test_a_missing_vhost_is_named(broker_url: str) -> None:
    with pytest.raises(BrokerError, match="vhost 'no-such-vhost'"):
        await connect(urlsplit(broker_url)._replace(path="/no-such-vhost").geturl(), "test")


async def test_a_server_that_says_nothing_is_given_up_at_the_deadline(proxy: Proxy) -> None:
    proxy.blackhole()
    with pytest.raises(BrokerError, match=r"within 0\.5 s"):
        await connect(proxy.url, "test", timeout=0.5)


class LateToLook(Streams):
    """Finds the other side gone when it begins to listen, as a busy process may."""

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await super().create(url, **kwargs)
        await eventually(reader.at_eof)
        return reader, writer


@pytest.mark.parametrize("streams", [Streams, LateToLook])
async def test_a_broker_that_hangs_up_before_a_word_is_said_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch, streams: type[Streams]
) -> None:
    """As one does that is going down. aiormq raises another error by when it notices."""
    monkeypatch.setattr(connection, "_streams", lambda transport: streams())
    called: list[bool] = []
    hang_up = partial(_hang_up, called)
    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BrokerError, match=f"RabbitMQ at 127.0.0.1:{port} cannot be reached: .* closed"):
            await connect(f"amqp://guest:guest@127.0.0.1:{port}/", "test")
    assert called


def _hang_up(called: list[bool], _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    called.append(True)
    writer.close()


async def test_f70_switching_tls_verification_off_is_refused() -> None:
    with pytest.raises(BrokerError, match="no_verify_ssl"):
        await connect("amqps://guest:guest@localhost/?no_verify_ssl=1", "test")


async def test_plain_text_to_a_tls_address_fails_in_words(broker_url: str) -> None:
    with pytest.raises(BrokerError, match="TLS"):
        await connect(broker_url.replace("amqp://", "amqps://"), "test", timeout=30)


async def test_a_lost_connection_comes_back_and_says_so(room: Room, proxy: Proxy) -> None:
    connection = await room.connection(url=proxy.url)
    epochs: list[int] = []
    connection.on_reconnect(lambda: epochs.append(connection.epoch))
    take_off = connection.on_reconnect(lambda: epochs.append(-1))
    take_off()
    assert (connection.is_open, connection.epoch) == (True, 1)
    proxy.cut()
    await eventually(lambda: not connection.is_open)
    await eventually(lambda: epochs == [2])
    assert connection.is_open
    await connection.close()
    assert not connection.is_open


async def test_publisher_and_consumer_go_on_after_a_cut(room: Room, proxy: Proxy) -> None:
    await room.declare(queue_topology("work"))
    publishing = await room.connection("publishing", url=proxy.url)
    consuming = await room.connection("consuming", url=proxy.url)
    publisher = await room.publisher(publishing)
    consumer = await room.consumer("work", connection=consuming)
    for number in range(3):
        assert await publisher.publish([message(number)]) == [Outcome.CONFIRMED]
        await take_all(consumer, {number})
        proxy.cut()
        await eventually(lambda n=number: publishing.epoch == consuming.epoch == n + 2)  # type: ignore[misc]
        await eventually(lambda: consumer.subscribed)


async def test_f02_a_half_open_connection_fails_publishes_in_time_and_is_replaced(
    room: Room, proxy: Proxy
) -> None:
    await room.declare(queue_topology("work"))
    connection = await room.connection("publishing", url=proxy.url, heartbeat=1)
    publisher = await room.publisher(connection, timeout=0.5)
    await eventually(lambda: is_confirmed(publisher, 1))
    proxy.blackhole()
    assert await publisher.publish([message(2)]) == [Outcome.UNKNOWN]
    await eventually(lambda: not connection.is_open)
    proxy.heal()
    await eventually(lambda: connection.is_open)
    await eventually(lambda: is_confirmed(publisher, 3))


async def test_closing_ends_in_time_although_the_broker_says_nothing(room: Room, proxy: Proxy) -> None:
    connection = await room.connection(url=proxy.url)
    proxy.blackhole()
    with structlog.testing.capture_logs() as logs:
        await connection.close(timeout=0.5)
    assert [log["event"] for log in logs] == [events.BROKER_CLOSE_INCOMPLETE]


async def is_confirmed(publisher: Publisher, number: int) -> bool:
    return await publisher.publish([message(number)]) == [Outcome.CONFIRMED]
