"""Frames are written as the client library writes them."""

from __future__ import annotations

import pytest
from pamqp import commands, frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from tests.unit.broker.fast.frames_of_a_broker import sent
from triumvir.broker.fast import frames

MOST = 100


@pytest.mark.parametrize("size", [0, 1, MOST - 1, MOST, MOST + 1, 2 * MOST, 2 * MOST + 1, 1003])
def test_a_body_is_cut_where_the_client_library_would_cut_it(size: int) -> None:
    body, properties = b"b" * size, commands.Basic.Properties(message_id="m")
    parts = [ContentBody(body[start : start + MOST]) for start in range(0, size, MOST)]
    header = ContentHeader(body_size=size, properties=properties)
    assert frames.content(7, properties.marshal(), body, MOST) == sent(7, header, *parts)


def test_a_publish_is_mandatory() -> None:
    expected = commands.Basic.Publish(exchange="x", routing_key="größe", mandatory=True)
    assert frames.publish(7, "x", "größe") == frame.marshal(expected, 7)


@pytest.mark.parametrize("exchange", ["not allowed: *", "ü", "x" * 128])
def test_what_no_exchange_can_be_called_is_not_written(exchange: str) -> None:
    with pytest.raises(ValueError, match="no name of an exchange"):
        frames.publish(7, exchange, "work")


def test_a_property_beyond_its_255_bytes_is_not_written() -> None:
    assert frames.short("x" * 255) == b"\xff" + b"x" * 255
    with pytest.raises(ValueError, match="256"):
        frames.short("ü" * 128)


@pytest.mark.parametrize("multiple", [False, True])
def test_an_ack_is_that_of_the_client_library(multiple: bool) -> None:
    expected = frame.marshal(commands.Basic.Ack(2**40, multiple), 3)
    assert frames.ack(3, 2**40, multiple=multiple) == expected


def test_what_is_given_back_is_requeued_one_by_one() -> None:
    expected = [frame.marshal(commands.Basic.Nack(tag, False, True), 3) for tag in (5, 9)]
    assert frames.give_back(3, [5, 9]) == b"".join(expected)


def test_the_reason_of_a_close_is_read() -> None:
    marshalled = frame.marshal(commands.Channel.Close(404, "NOT_FOUND - größe", 60, 40), 3)
    assert frames.reply_text(marshalled[7:-1]) == "NOT_FOUND - größe"
    assert frames.reply_text(b"") == ""
