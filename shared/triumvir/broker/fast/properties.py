"""The properties of a message as bytes: written for what is published, read in one pass from what is delivered."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple

from triumvir.broker import foreign
from triumvir.broker.fast.frames import short
from triumvir.broker.messages import OutMessage

_CONTENT_TYPE: Final = 1 << 15
_HEADERS: Final = 1 << 13
_DELIVERY_MODE: Final = 1 << 12
_CORRELATION_ID: Final = 1 << 10
_REPLY_TO: Final = 1 << 9
_MESSAGE_ID: Final = 1 << 7
_TIMESTAMP: Final = 1 << 6
_TYPE: Final = 1 << 5
_USER_ID: Final = 1 << 4
_MORE_FLAGS: Final = 1

_ALWAYS: Final = _CONTENT_TYPE | _DELIVERY_MODE | _MESSAGE_ID | _TIMESTAMP
_JSON: Final = short("application/json")
_PERSISTENT: Final = b"\x02"
_FLAGS: Final = 12
"""Where they stand in the payload of a header frame, after class, weight and body size."""
_LONG_TEXT: Final = ord("S")

_word = struct.Struct(">H").pack
_long = struct.Struct(">I").pack
_time = struct.Struct(">Q").pack


class Properties(NamedTuple):
    """What the suite looks at. None: not sent, or not to be decoded."""

    content_type: str | None
    headers: Mapping[str, object]
    correlation_id: str | None
    reply_to: str | None
    message_id: str | None
    timestamp: datetime | None
    type: str | None
    user_id: str | None


def write(message: OutMessage, at: int) -> bytes:
    """Flags and properties of a persistent JSON message sent ``at`` (Unix seconds).

    Raises ValueError or TypeError for what no property can be; empty ones are left out.
    """
    flags = _ALWAYS
    headers = correlation_id = reply_to = type_ = user_id = b""
    if message.headers:
        flags |= _HEADERS
        headers = table(message.headers)
    if message.correlation_id:
        flags |= _CORRELATION_ID
        correlation_id = short(message.correlation_id)
    if message.reply_to:
        flags |= _REPLY_TO
        reply_to = short(message.reply_to)
    if message.type:
        flags |= _TYPE
        type_ = short(message.type)
    if message.user_id:
        flags |= _USER_ID
        user_id = short(message.user_id)
    return b"".join(
        (_word(flags), _JSON, headers, _PERSISTENT, correlation_id, reply_to, short(message.message_id),
         _time(at), type_, user_id)
    )  # fmt: skip


def table(headers: Mapping[str, str]) -> bytes:
    """A header table of texts."""
    parts: list[bytes] = []
    for name, value in headers.items():
        text = value.encode()
        parts += (short(name), b"S", _long(len(text)), text)
    content = b"".join(parts)
    return _long(len(content)) + content


def read(header: bytes) -> Properties:
    """The properties in the payload of a header frame.

    What cannot be decoded is None, and so is what a cut-off header no longer has: whoever takes the message refuses
    it like any other bad input, and it does not come again for ever.
    """
    found: list[Any] = [None] * len(_DECODERS)
    flags, at = _flags(header)
    try:
        for index, decode in _layout(flags):
            found[index], at = decode(header, at)
    except IndexError:
        pass  # the rest was cut off
    content_type, _, headers, _, _, correlation_id, reply_to, _, message_id, timestamp, type_, user_id, _ = (
        found
    )
    return Properties(
        content_type, headers or {}, correlation_id, reply_to, message_id, timestamp, type_, user_id
    )


def _flags(header: bytes) -> tuple[int, int]:
    """The flags, and where the properties begin. Further words of flags name nothing that there is."""
    at = _FLAGS + 2
    flags = more = int.from_bytes(header[_FLAGS:at], "big")
    while more & _MORE_FLAGS and at < len(header):
        more = int.from_bytes(header[at : at + 2], "big")
        at += 2
    return flags, at


def _text(data: bytes, at: int) -> tuple[str | None, int]:
    end = at + 1 + data[at]
    if end > len(data):
        raise IndexError
    try:
        return data[at + 1 : end].decode(), end
    except UnicodeDecodeError:
        return None, end


def _octet(data: bytes, at: int) -> tuple[int, int]:
    return data[at], at + 1


def _timestamp(data: bytes, at: int) -> tuple[datetime | None, int]:
    return foreign.timestamp(data[at : at + 8])[1], at + 8


def _table(data: bytes, at: int) -> tuple[Mapping[str, object], int]:
    end = at + 4 + int.from_bytes(data[at : at + 4], "big")
    if end > len(data):
        raise IndexError
    texts = _texts(data, at + 4, end)
    return (texts if texts is not None else foreign.table(data[at:end])[1]), end


def _texts(data: bytes, at: int, end: int) -> Mapping[str, object] | None:
    """A table that holds nothing but texts, as our own do; None for any other."""
    found: dict[str, object] = {}
    try:
        while at < end:
            value = at + 1 + data[at]
            stop = value + 5 + int.from_bytes(data[value + 1 : value + 5], "big")
            if data[value] != _LONG_TEXT or stop > end:
                return None
            found[data[at + 1 : value].decode()] = data[value + 5 : stop].decode()
            at = stop
    except (UnicodeDecodeError, IndexError):
        return None
    return found


_Decoder = Callable[[bytes, int], tuple[Any, int]]

_DECODERS: Final[tuple[_Decoder, ...]] = (
    _text, _text, _table, _octet, _octet, _text, _text, _text, _text, _timestamp, _text, _text, _text,
)  # fmt: skip
"""Of content type, content encoding, headers, delivery mode, priority, correlation id, reply-to, expiration, message
id, timestamp, type, user id, application id: from the highest flag down."""


@cache
def _layout(flags: int) -> tuple[tuple[int, _Decoder], ...]:
    """Which properties follow each other under ``flags``."""
    return tuple((index, decode) for index, decode in enumerate(_DECODERS) if flags & _CONTENT_TYPE >> index)
