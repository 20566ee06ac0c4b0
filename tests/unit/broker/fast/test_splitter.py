"""The byte stream is split into the hot frames of each channel and everything else, however it comes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from aiormq.exceptions import ChannelInvalidStateError
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, heartbeat
from pamqp.header import ProtocolHeader

from tests.unit.broker.fast import frames_of_a_broker as broker
from triumvir.broker.fast import frames, properties
from triumvir.broker.fast.channel import End
from triumvir.broker.fast.frames import BadFrame
from triumvir.broker.fast.splitter import Splitter

PUBLISHING, CONSUMING, OTHER = 1, 2, 3
HEARTBEAT = heartbeat.Heartbeat().marshal()


@dataclass
class Told:
    """What a publisher or consumer on a channel was told."""

    events: list[object] = field(default_factory=list)

    def on_confirm(self, tag: int, *, multiple: bool, accepted: bool) -> None:
        self.events.append((tag, multiple, accepted))

    def on_return(self, header: bytes) -> None:
        self.events.append(properties.read(header).message_id)

    def on_delivery(self, tag: int, redelivered: bool, header: bytes, body: bytes) -> None:
        self.events.append((tag, redelivered, properties.read(header).message_id, body))

    def on_end(self, end: End) -> None:
        self.events.append(end)


class Side:
    """The client's end of a connection with three open channels: one publishes, one consumes, one does neither."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.splitter = Splitter(self.written.append)
        self.publishing, self.consuming = Told(), Told()
        opening = b"".join(broker.opened(number) for number in (PUBLISHING, CONSUMING, OTHER))
        assert self.splitter.feed(opening) == opening
        self.splitter.channels[PUBLISHING].publish_for(self.publishing)
        self.splitter.channels[CONSUMING].consume_for(self.consuming, broker.CONSUMER)


def nowhere(data: bytes) -> None:
    raise AssertionError(f"written: {data!r}")


HOT = [
    broker.ack(PUBLISHING, 1),
    broker.nack(PUBLISHING, 2, multiple=True),
    broker.returned(PUBLISHING, "m-3"),
    broker.delivery(CONSUMING, 1, b"", message_id="d-1"),
    broker.delivery(CONSUMING, 2, b"one frame", message_id="d-2"),
    broker.delivery(CONSUMING, 3, b"several frames" * 20, most=30, message_id="d-3"),
]
COLD = [
    HEARTBEAT,
    broker.delivery(CONSUMING, 1, b"somebody else's", to="other"),
    broker.delivery(OTHER, 1, b"on a channel of the client library"),
    broker.sent(OTHER, commands.Queue.DeclareOk("work", 0, 0)),
    broker.sent(PUBLISHING, commands.Confirm.SelectOk()),
    broker.sent(CONSUMING, commands.Basic.Cancel(broker.CONSUMER)),
    broker.ack(OTHER, 1),
]

streams = st.lists(st.sampled_from(HOT + COLD), max_size=20)


@given(streams, st.data())
def test_any_split_of_the_stream_is_the_same_stream(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=60).map(sorted))
    whole, pieces = Side(), Side()
    passed = whole.splitter.feed(stream)
    bounds = [0, *cuts, len(stream)]
    together = b"".join(pieces.splitter.feed(stream[start:stop]) for start, stop in pairwise(bounds))
    assert passed == together == b"".join(part for part in parts if part in COLD)
    assert whole.publishing == pieces.publishing
    assert whole.consuming == pieces.consuming
    assert len(whole.publishing.events) + len(whole.consuming.events) == sum(part in HOT for part in parts)


def test_byte_by_byte_each_delivery_and_each_confirm_comes_once() -> None:
    side = Side()
    stream = b"".join(HOT)
    assert b"".join(side.splitter.feed(stream[at : at + 1]) for at in range(len(stream))) == b""
    assert side.publishing.events == [(1, False, True), (2, True, False), "m-3"]
    assert side.consuming.events == [
        (1, False, "d-1", b""),
        (2, True, "d-2", b"one frame"),
        (3, False, "d-3", b"several frames" * 20),
    ]


@given(st.lists(st.binary(max_size=300), max_size=6), streams)
def test_garbage_is_passed_on_or_refused_and_nothing_else(garbage: list[bytes], parts: list[bytes]) -> None:
    side = Side()
    side.splitter.feed(b"".join(parts))
    told = len(side.publishing.events) + len(side.consuming.events)
    try:
        for piece in garbage:
            side.splitter.feed(piece)
    except BadFrame:
        pass
    assert len(side.publishing.events) + len(side.consuming.events) == told


@given(streams, st.data())
def test_one_wrong_byte_is_never_more_than_a_refused_stream(parts: list[bytes], data: st.DataObject) -> None:
    stream = bytearray(b"".join([*parts, HOT[-1]]))
    stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    with suppress(BadFrame):
        Side().splitter.feed(bytes(stream))


@pytest.mark.parametrize("part", HOT, ids=lambda part: f"{len(part)} bytes")
def test_what_is_cut_off_is_never_told(part: bytes) -> None:
    for length in range(len(part)):
        side = Side()
        assert side.splitter.feed(part[:length]) == b""
        assert side.publishing.events + side.consuming.events == []


def test_a_frame_larger_than_agreed_is_refused_before_it_is_held() -> None:
    splitter = Splitter(nowhere)
    splitter.feed(broker.sent(0, commands.Connection.Tune(0, 4096, 10)))
    splitter.feed(frames.FRAME.pack(frames.BODY, 1, 4088))
    other = Splitter(nowhere)
    other.feed(broker.sent(0, commands.Connection.Tune(0, 4096, 10)))
    with pytest.raises(BadFrame, match="agreed"):
        other.feed(frames.FRAME.pack(frames.BODY, 1, 4089) + b"x")


@pytest.mark.parametrize(
    "stream",
    [
        broker.delivery(CONSUMING, 1, b"body")[:-1] + b"\x00",
        broker.sent(CONSUMING, commands.Basic.Deliver(broker.CONSUMER, 1, False, "x", "k"))
        + broker.opened(CONSUMING),
        broker.delivery(CONSUMING, 1, b"a" * 9, most=5)[:-10] + broker.content(CONSUMING, b"a" * 9, 9)[-17:],
        broker.sent(PUBLISHING, commands.Basic.Return(312, "", "", "")) + broker.ack(PUBLISHING, 1),
    ],
    ids=["no end", "a method inside a content", "more than announced", "a confirm inside a return"],
)
def test_frames_out_of_order_are_refused(stream: bytes) -> None:
    side = Side()
    with pytest.raises(BadFrame):
        side.splitter.feed(stream)
    assert side.consuming.events == []


def test_after_the_brokers_close_nothing_is_written_on_a_later_channel_of_that_number() -> None:
    side = Side()
    old = side.splitter.channels[CONSUMING]
    closing = broker.closed(CONSUMING, "PRECONDITION_FAILED - unknown delivery tag")
    assert side.splitter.feed(closing) == closing
    assert side.consuming.events == [End("PRECONDITION_FAILED - unknown delivery tag", refused=True)]
    side.splitter.feed(broker.opened(CONSUMING))
    with pytest.raises(ChannelInvalidStateError):
        old.write(frames.ack(CONSUMING, 1))
    assert side.written == []
    side.splitter.channels[CONSUMING].write(b"of the new one")
    assert side.written == [b"of the new one"]


@pytest.mark.parametrize(
    "before", [b"", broker.sent(PUBLISHING, commands.Basic.Cancel("c"))], ids=["alone", "second"]
)
def test_after_our_own_close_nothing_is_written_and_what_still_comes_is_dropped(before: bytes) -> None:
    side = Side()
    consuming = broker.sent(CONSUMING, commands.Channel.Close(200, "", 0, 0))
    publishing = broker.sent(PUBLISHING, commands.Channel.Close(200, "", 0, 0))
    late = broker.delivery(CONSUMING, 1, b"half", most=2)
    side.splitter.feed(late[:-5])
    side.splitter.sent(before + consuming + publishing)
    assert side.splitter.feed(late[-5:] + broker.ack(PUBLISHING, 1)) == b""
    with pytest.raises(ChannelInvalidStateError):
        side.splitter.channels[PUBLISHING].write(b"a publish that came too late")
    done = broker.close_ok(CONSUMING)
    assert side.splitter.feed(done) == done
    assert side.consuming.events == [End("closed by this side")]
    assert CONSUMING not in side.splitter.channels


def test_the_close_of_the_connection_ends_every_channel_once() -> None:
    side = Side()
    side.splitter.feed(broker.sent(0, commands.Connection.Close(320, "CONNECTION_FORCED", 0, 0)))
    side.splitter.end("lost")
    assert side.publishing.events == side.consuming.events == [End("CONNECTION_FORCED")]
    other = Side()
    other.splitter.sent(broker.sent(0, commands.Connection.Close(200, "", 0, 0)))
    assert [type(event) for event in other.publishing.events] == [End]


def test_the_clients_first_words_are_no_frames() -> None:
    Splitter(nowhere).sent(ProtocolHeader().marshal())


def test_a_channel_has_one_user() -> None:
    side = Side()
    with pytest.raises(ValueError, match="in use"):
        side.splitter.channels[PUBLISHING].publish_for(Told())
