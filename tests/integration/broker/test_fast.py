"""The fast transport on a real broker: what only it can do wrong."""

from __future__ import annotations

import asyncio
import struct

import pytest
import structlog

from tests.integration.broker.proxy import Proxy
from tests.integration.broker.room import Room, eventually, message, numbers, queue_topology, take, take_all
from triumvir.broker import Connection, Delivery, Outcome, Publisher, connect
from triumvir.broker.fast import compatibility
from triumvir.broker.session import Session
from triumvir.settings import Transport
from triumvir.telemetry import events

CONFIRMED, UNKNOWN = Outcome.CONFIRMED, Outcome.UNKNOWN

BAD = {
    "bytes that are no frame": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a frame without an end": struct.pack(">BHI", 1, 0, 4) + b"\x00\x0a\x00\x33" + b"\x00",
    "a frame larger than agreed": struct.pack(">BHI", 3, 1, 2**31),
    "a confirm of what was never published": struct.pack(
        ">BHI4sQBB", 1, 2, 13, b"\x00\x3c\x00\x50", 9, 0, 0xCE
    ),
}


@pytest.fixture
def transport() -> Transport:
    """This transport alone."""
    return "fast"


async def pair(room: Room, proxy: Proxy, **options: int) -> tuple[Connection, Connection]:
    """A connection by way of the proxy, and one that is to stay as it is."""
    return await room.connection("cut", url=proxy.url, **options), await room.connection("spared")


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
async def test_garbage_ends_the_connection_and_nothing_else(room: Room, proxy: Proxy, bad: bytes) -> None:
    await room.declare(queue_topology("work"))
    cut, spared = await pair(room, proxy)
    publisher, consumer = await room.publisher(cut), await room.consumer("work", connection=cut)
    assert await publisher.publish([message(1)]) == [CONFIRMED]
    assert publisher._lane is not None
    assert publisher._lane.channel.number == 2, "the channel that the confirm is for"
    await take_all(consumer, {1})
    with structlog.testing.capture_logs() as logs:
        proxy.inject(bad)
        await eventually(lambda: cut.epoch == 2)
    assert [log["event"] for log in logs].count(events.BROKER_STREAM_UNREADABLE) == 1
    assert await publisher.publish([message(2)]) == [CONFIRMED]
    await take_all(consumer, {2})
    assert (spared.epoch, spared.is_open) == (1, True)


async def test_a_frame_that_is_cut_off_by_the_end_is_a_lost_connection(room: Room, proxy: Proxy) -> None:
    await room.declare(queue_topology("work"))
    cut, spared = await pair(room, proxy)
    consumer = await room.consumer("work", connection=cut)
    assert await (await room.publisher(spared)).publish([message(n) for n in range(5)]) == [CONFIRMED] * 5
    old = await take(consumer, 5)
    proxy.cut_after(struct.pack(">BHI", 1, 1, 500) + b"\x00\x3c\x00\x3c")
    await eventually(lambda: cut.epoch == 2)
    await consumer.settle(old)
    assert sorted(await take_all(consumer, set(range(5)))) == [0, 1, 2, 3, 4]


async def test_a_stream_that_comes_byte_by_byte_is_the_same_stream(room: Room, proxy: Proxy) -> None:
    await room.declare(queue_topology("work"))
    proxy.dribble()
    connection = await room.connection(url=proxy.url)
    publisher, consumer = await room.publisher(connection), await room.consumer("work", connection=connection)
    batch = [message(n, headers={"n": str(n)}) for n in range(100)]
    assert await publisher.publish([*batch, message("lost", "nowhere")]) == [CONFIRMED] * 100 + [
        Outcome.RETURNED
    ]
    taken = await take(consumer, 100)
    assert numbers(taken) == list(range(100))
    assert [delivery.headers["n"] for delivery in taken] == [str(n) for n in range(100)]


async def test_hot_traffic_alone_keeps_the_connection_alive(room: Room) -> None:
    """The client library gives a silent server up after (heartbeat + 1) * 3 seconds."""
    await room.declare(queue_topology("work"))
    connection = await room.connection(heartbeat=1)
    publisher, loop = await room.publisher(connection), asyncio.get_running_loop()
    ends = loop.time() + 8
    while loop.time() < ends:
        assert await publisher.publish([message(n) for n in range(20)]) == [CONFIRMED] * 20
    assert connection.epoch == 1


async def close_channel_of(delivery: Delivery) -> int:
    """Have the broker close the channel that ``delivery`` came by, for a publish that is not allowed; its number."""
    session = delivery.channel
    assert isinstance(session, Session)
    await session.channel.basic_publish(b"", exchange="no-such-exchange")
    await eventually(session.ended.is_set)
    return session.channel.number


async def test_a_settlement_never_reaches_a_channel_that_was_opened_again(room: Room) -> None:
    await room.declare(queue_topology("work"))
    publishing, consuming = await room.connection(), await room.connection("consuming")
    consumer = await room.consumer("work", connection=consuming)
    assert await (await room.publisher(publishing)).publish([message(n) for n in range(3)]) == [CONFIRMED] * 3
    old = await take(consumer, 3)
    number = await close_channel_of(old[0])
    new = await take(consumer, 3)
    session = new[0].channel
    assert isinstance(session, Session)
    assert session.channel.number == number
    assert [delivery.redelivered for delivery in new] == [True] * 3
    await consumer.settle(old)
    assert consumer.unsettled == 3
    assert consuming.epoch == 1
    await consumer.close()
    await eventually(lambda: _depth_is(room, 3))


async def test_calls_during_the_close_of_their_channel_do_not_cost_the_connection(room: Room) -> None:
    await room.declare(queue_topology("work"))
    connection = await room.connection()
    publisher = await room.publisher(connection)
    for turn in range(5):
        batches = [[message(turn * 1000 + call * 100 + n) for n in range(50)] for call in range(4)]
        calls = [asyncio.ensure_future(publisher.publish(batch)) for batch in batches]
        for _ in range(turn):
            await asyncio.sleep(0)
        await publisher.close()
        outcomes = [outcome for call in await asyncio.gather(*calls) for outcome in call]
        assert set(outcomes) <= {CONFIRMED, UNKNOWN}
    assert await publisher.publish([message(9999)]) == [CONFIRMED]
    assert connection.epoch == 1


async def test_a_socket_that_takes_no_more_is_not_given_more(room: Room, proxy: Proxy) -> None:
    await room.declare(queue_topology("work"))
    connection = await room.connection(url=proxy.url)
    publisher = await room.publisher(connection, timeout=0.5)
    assert await publisher.publish([message(0)]) == [CONFIRMED]
    proxy.blackhole()
    sent: list[int] = []
    for number in range(1, 61):
        running = asyncio.ensure_future(publisher.publish([message(number, body=b"x" * 1_000_000)]))
        await asyncio.wait([running], timeout=0.01)
        lane = publisher._lane
        assert lane is not None
        sent.append(lane.in_flight)
    assert sent[-1] < 30, "60 MB were offered; what the kernel does not take waits with its caller"
    await eventually(lambda: publisher.oldest_unconfirmed_age() > 0.6)
    proxy.heal()
    await eventually(lambda: _is_confirmed(publisher, 7))
    assert connection.epoch == 1


@pytest.mark.parametrize("wanted", ["fast", "stock"])
async def test_an_untested_client_library_is_used_as_it_is_with_a_warning(
    broker_url: str, monkeypatch: pytest.MonkeyPatch, wanted: Transport
) -> None:
    monkeypatch.setattr(compatibility, "TESTED", frozenset({"6.9"}))
    with structlog.testing.capture_logs() as logs:
        connection = await connect(broker_url, "test", transport=wanted)
        await connection.close()
    assert connection.transport == "stock"
    warnings = [log for log in logs if log["event"] == events.TRANSPORT_FALLBACK]
    assert len(warnings) == (1 if wanted == "fast" else 0)
    for warning in warnings:
        assert warning["log_level"] == "warning"
        assert "tested with 6.9" in warning["problem"]
        assert "TRIUMVIR_TRANSPORT=stock" in warning["fix"]


async def _depth_is(room: Room, ready: int) -> bool:
    return (await room.look("work"))[0] == ready


async def _is_confirmed(publisher: Publisher, number: int) -> bool:
    return await publisher.publish([message(number)]) == [CONFIRMED]
