"""What other clients put into their messages arrives, and never cuts the connection."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import Any

import pytest
from aiormq import spec
from aiormq.abc import AbstractChannel, ChannelFrame

from tests.integration.broker.room import Room, queue_topology, take
from triumvir.broker import INTERNAL_EXCHANGE

_FLAGS = {
    "content_type": 15,
    "headers": 13,
    "delivery_mode": 12,
    "correlation_id": 10,
    "message_id": 7,
    "timestamp": 6,
}


def short(value: bytes) -> bytes:
    return bytes([len(value)]) + value


def table(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def nested(depth: int) -> bytes:
    content = b""
    for _ in range(depth):
        content = short(b"n") + b"F" + table(content)
    return table(content)


async def publish_raw(channel: AbstractChannel, routing_key: bytes, body: bytes, **properties: bytes) -> None:
    """Publish with properties encoded by hand, as no well-behaved library would encode them."""
    ordered = sorted(properties, key=_FLAGS.__getitem__, reverse=True)
    flags = sum(1 << _FLAGS[name] for name in ordered)
    method = struct.pack(">HHH", 60, 40, 0) + short(INTERNAL_EXCHANGE.encode()) + short(routing_key) + b"\x00"
    header = struct.pack(">HHQH", 60, 0, len(body), flags) + b"".join(properties[name] for name in ordered)
    frames = [(1, method), (2, header)] + ([(3, body)] if body else [])
    number = channel.number
    payload = b"".join(struct.pack(">BHI", kind, number, len(data)) + data + b"\xce" for kind, data in frames)
    await channel.write_queue.put(ChannelFrame(payload=payload, should_close=False))  # type: ignore[attr-defined]


async def test_a_message_without_any_property_arrives_with_none(room: Room) -> None:
    await room.declare(queue_topology("work"))
    await publish_raw(await room.raw_channel(), b"work", b"bare")
    [found] = await take(await room.consumer("work"), 1)
    assert (found.body, found.message_id, found.type, found.correlation_id) == (b"bare", None, None, None)
    assert (found.user_id, found.reply_to, found.content_type, found.timestamp) == (None, None, None, None)
    assert found.headers == {}


POISON: dict[str, dict[str, bytes]] = {
    "a message id that is no text": {"message_id": short(b"\xff\xfe")},
    "a timestamp beyond the calendar": {"timestamp": b"\xff" * 8},
    "a timestamp a little beyond the calendar": {"timestamp": struct.pack(">Q", 253_402_300_800_000)},
    "a header name that is no text": {"headers": table(short(b"\xff") + b"V")},
    "a header value of a date beyond the calendar": {"headers": table(short(b"t") + b"T" + b"\xff" * 8)},
    "headers a thousand levels deep": {"headers": nested(1200)},
    "a header value that is no text": {"headers": table(short(b"v") + b"S" + table(b"\xff\xfe"))},
    "headers of every kind": {
        "headers": table(
            short(b"none") + b"V" + short(b"yes") + b"t\x01" + short(b"int") + b"l" + b"\xff" * 8
            + short(b"list") + b"A" + table(b"V" + b"t\x00") + short(b"table") + b"F" + table(short(b"x") + b"V")
            + short(b"double") + b"d" + struct.pack(">d", 1.5) + short(b"bytes") + b"x" + table(b"\x00\xff")
            + short(b"decimal") + b"D\xff\xff\xff\xff\xff"
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("properties", POISON.values(), ids=POISON.keys())
async def test_undecodable_properties_arrive_as_none_and_the_next_message_follows(
    room: Room, properties: dict[str, bytes]
) -> None:
    await room.declare(queue_topology("work"))
    channel = await room.raw_channel()
    connection = await room.connection("consuming")
    consumer = await room.consumer("work", connection=connection)
    behind = {"correlation_id": short(b"c"), "content_type": short(b"text/plain")}
    await publish_raw(channel, b"work", b"poison", **properties, **behind)
    await publish_raw(channel, b"work", b"next", message_id=short(b"m"))
    poison, following = await take(consumer, 2)
    assert (poison.body, poison.message_id, poison.timestamp) == (b"poison", None, None)
    assert (poison.correlation_id, poison.content_type) == ("c", "text/plain")
    assert (following.body, following.message_id) == (b"next", "m")
    await consumer.settle([poison, following])
    assert connection.epoch == 1
    assert consumer.unsettled == 0


async def test_a_routing_key_that_is_no_text_does_not_cut_the_connection(room: Room) -> None:
    await room.declare(queue_topology("work"))
    channel = await room.raw_channel()
    await channel.queue_bind("work", "amq.fanout")
    await channel.exchange_bind("amq.fanout", INTERNAL_EXCHANGE, routing_key="other")
    await channel.exchange_declare("every", exchange_type="fanout")
    await channel.queue_bind("work", "every")
    connection = await room.connection("consuming")
    consumer = await room.consumer("work", connection=connection)
    method = struct.pack(">HHH", 60, 40, 0) + short(b"every") + short(b"\xff\xfe") + b"\x00"
    header = struct.pack(">HHQH", 60, 0, 0, 0)
    number = channel.number
    frames = [(1, method), (2, header)]
    payload = b"".join(struct.pack(">BHI", kind, number, len(data)) + data + b"\xce" for kind, data in frames)
    await channel.write_queue.put(ChannelFrame(payload=payload, should_close=False))  # type: ignore[attr-defined]
    [found] = await take(consumer, 1)
    assert found.body == b""
    assert connection.epoch == 1


@pytest.mark.parametrize(
    "properties",
    [
        {"headers": {"traceparent": 7, "list": [1, None, {"x": 1.5}]}},
        {"timestamp": datetime(1970, 1, 1, tzinfo=UTC)},
        {"expiration": "60000", "priority": 255, "app_id": "a", "content_encoding": "gzip"},
        {"delivery_mode": 1},
    ],
    ids=str,
)
async def test_unusual_properties_arrive(room: Room, properties: dict[str, Any]) -> None:
    await room.declare(queue_topology("work"))
    channel = await room.raw_channel()
    await channel.basic_publish(
        b"x", exchange=INTERNAL_EXCHANGE, routing_key="work", properties=spec.Basic.Properties(**properties)
    )
    [found] = await take(await room.consumer("work"), 1)
    assert found.headers == properties.get("headers", {})
    assert found.timestamp == properties.get("timestamp")
