"""Properties are written and read as the client library writes and reads them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands
from pamqp.header import ContentHeader

from triumvir.broker import OutMessage, foreign
from triumvir.broker.fast import properties

AT = 1_700_000_000

texts = st.text(max_size=60)
names = st.text(max_size=30).filter(lambda name: len(name.encode()) <= 128)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
sent_properties = st.fixed_dictionaries(
    {},
    optional={
        "content_type": texts,
        "content_encoding": texts,
        "headers": st.dictionaries(names, texts | values, max_size=4),
        "delivery_mode": st.sampled_from([1, 2]),
        "priority": st.integers(0, 255),
        "correlation_id": texts,
        "reply_to": texts,
        "expiration": texts,
        "message_id": texts,
        "timestamp": st.integers(0, 2**32 - 1).map(lambda at: datetime.fromtimestamp(at, UTC)),
        "message_type": texts,
        "user_id": texts,
        "app_id": texts,
    },
)
messages = st.builds(
    OutMessage,
    exchange=st.just("x"),
    routing_key=st.just("work"),
    message_id=st.text(min_size=1, max_size=60),
    type=texts,
    correlation_id=texts,
    body=st.just(b"{}"),
    headers=st.dictionaries(names, texts, max_size=4).map(lambda headers: dict(sorted(headers.items()))),
    reply_to=st.none() | texts,
    user_id=st.none() | texts,
)


def as_the_library_reads(payload: bytes) -> commands.Basic.Properties:
    header = ContentHeader()
    header.unmarshal(payload)
    return header.properties


@given(sent_properties)
def test_every_property_is_read_as_the_client_library_reads_it(fields: dict[str, Any]) -> None:
    foreign.tolerate_foreign_properties()
    payload = ContentHeader(body_size=7, properties=commands.Basic.Properties(**fields)).marshal()
    found, expected = properties.read(payload), as_the_library_reads(payload)
    for name in ("content_type", "correlation_id", "reply_to", "message_id", "timestamp", "user_id"):
        assert getattr(found, name) == getattr(expected, name), name
    assert found.type == expected.message_type
    assert found.headers == (expected.headers or {})


@given(messages)
def test_what_is_written_the_client_library_would_have_written(message: OutMessage) -> None:
    expected = commands.Basic.Properties(
        content_type="application/json",
        delivery_mode=2,
        headers=dict(message.headers) or None,
        correlation_id=message.correlation_id,
        reply_to=message.reply_to,
        message_id=message.message_id,
        timestamp=datetime.fromtimestamp(AT, UTC),
        message_type=message.type,
        user_id=message.user_id,
    )
    assert properties.write(message, AT) == expected.marshal()


@given(sent_properties, st.data())
def test_a_header_that_is_cut_off_is_read_as_far_as_it_goes(
    fields: dict[str, Any], data: st.DataObject
) -> None:
    payload = ContentHeader(properties=commands.Basic.Properties(**fields)).marshal()
    cut = payload[: data.draw(st.integers(14, len(payload)))]
    whole, found = properties.read(payload), properties.read(cut)
    for name in ("content_type", "correlation_id", "reply_to", "message_id", "type", "user_id"):
        assert getattr(found, name) in (getattr(whole, name), None)


@given(st.binary(max_size=200))
def test_whatever_stands_in_a_header_it_is_read_without_an_error(garbage: bytes) -> None:
    properties.read(bytes(12) + garbage)


@pytest.mark.parametrize(
    "table",
    [b"\x00\x00\x00\x03\x01\xffV", b"\x00\x00\x00\x0b\x01tT" + b"\xff" * 8],
    ids=["a name that is no text", "a date beyond the calendar"],
)
def test_headers_that_cannot_be_decoded_are_none_and_what_follows_is_read(table: bytes) -> None:
    flags = (1 << 13 | 1 << 10).to_bytes(2, "big")
    found = properties.read(bytes(12) + flags + table + b"\x01c")
    assert found.headers == {}
    assert found.correlation_id == "c"


def test_a_second_word_of_flags_names_nothing_and_hides_nothing() -> None:
    flags = (1 << 10 | 1).to_bytes(2, "big") + b"\x80\x00"
    assert properties.read(bytes(12) + flags + b"\x01c").correlation_id == "c"
