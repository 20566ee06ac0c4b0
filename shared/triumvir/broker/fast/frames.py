"""Frames as bytes: what is written, and where things stand in what is read (AMQP 0-9-1)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from typing import Final

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
END: Final = 0xCE

PROTOCOL_HEADER: Final = b"AMQP"
"""How a client begins, and how a server answers that speaks another version."""
HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"
FRAME: Final = struct.Struct(">BHI")
"""Kind, channel, and bytes of payload. The payload and END follow."""
AROUND: Final = FRAME.size + 1
"""Bytes of a frame that are not payload."""
SMALLEST_FRAME_MAX: Final = 4096

TUNE: Final = b"\x00\x0a\x00\x1e"
CONNECTION_CLOSE: Final = b"\x00\x0a\x00\x32"
OPEN_OK: Final = b"\x00\x14\x00\x0b"
CLOSE: Final = b"\x00\x14\x00\x28"
CLOSE_OK: Final = b"\x00\x14\x00\x29"
RETURN: Final = b"\x00\x3c\x00\x32"
DELIVER: Final = b"\x00\x3c\x00\x3c"
ACK: Final = b"\x00\x3c\x00\x50"
NACK: Final = b"\x00\x3c\x00\x78"

_PUBLISH: Final = b"\x00\x3c\x00\x28\x00\x00"
_EXCHANGE: Final = re.compile(r"[a-zA-Z0-9-_.:@#,/+ ]{0,127}")
_MANDATORY: Final = b"\x01"
_REQUEUE: Final = 2
_CONTENT: Final = struct.Struct(">BHIHHQ")
_BASIC: Final = 60
_SETTLEMENT: Final = struct.Struct(">BHI4sQBB")
_TUNED: Final = struct.Struct(">HIH")


class BadFrame(ConnectionError):
    """The other side sent what is no AMQP, or not in this order: the connection is of no more use."""


def short(text: str) -> bytes:
    """A short string. Raises ValueError beyond 255 bytes."""
    data = text.encode()
    return bytes((len(data),)) + data


def method(number: int, payload: bytes) -> bytes:
    """A method frame on channel ``number``."""
    return b"%b%b\xce" % (FRAME.pack(METHOD, number, len(payload)), payload)


def publish(number: int, exchange: str, routing_key: str) -> bytes:
    """The method frame of a mandatory publish; the content follows. Raises ValueError for no name of an exchange."""
    if not _EXCHANGE.fullmatch(exchange):
        raise ValueError(f"{exchange!r} is no name of an exchange")
    return method(number, _PUBLISH + short(exchange) + short(routing_key) + _MANDATORY)


def content(number: int, properties: bytes, body: bytes, most: int) -> bytes:
    """Header and body frames, each with ``most`` bytes of the body at most."""
    size = len(body)
    header = _CONTENT.pack(HEADER, number, 12 + len(properties), _BASIC, 0, size) + properties
    if size <= most:
        return header + b"\xce%b%b\xce" % (FRAME.pack(BODY, number, size), body) if size else header + b"\xce"
    parts = [header, b"\xce"]
    for start in range(0, size, most):
        part = body[start : start + most]
        parts += (FRAME.pack(BODY, number, len(part)), part, b"\xce")
    return b"".join(parts)


def ack(number: int, tag: int, *, multiple: bool = False) -> bytes:
    """Acknowledges ``tag``, with ``multiple`` all before it as well."""
    return _SETTLEMENT.pack(METHOD, number, 13, ACK, tag, multiple, END)


def give_back(number: int, tags: Iterable[int]) -> bytes:
    """Returns each of ``tags`` to its queue."""
    return b"".join(_SETTLEMENT.pack(METHOD, number, 13, NACK, tag, _REQUEUE, END) for tag in tags)


def methods(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Channel and payload of each method frame in ``data``, which is whole frames."""
    position = 0
    while position + AROUND <= len(data):
        kind, number, size = FRAME.unpack_from(data, position)
        start = position + FRAME.size
        if kind == METHOD:
            yield number, data[start : start + size]
        position = start + size + 1


def frame_max(tune: bytes) -> int:
    """What ``connection.tune`` allows a frame to have, in bytes; 0 is no limit. Raises BadFrame."""
    if len(tune) < 4 + _TUNED.size:
        raise BadFrame("connection.tune is cut off")
    most: int = _TUNED.unpack_from(tune, 4)[1]
    return most


def reply_text(close: bytes) -> str:
    """Why a channel or a connection is closed, as ``channel.close`` and ``connection.close`` put it."""
    return close[7 : 7 + close[6]].decode(errors="replace") if len(close) > 6 else ""
