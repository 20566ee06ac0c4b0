"""Properties of foreign clients must not cut our connection.

Any client may put bytes that are no text into a message id or a routing key, a timestamp beyond the calendar, or
a header table a thousand levels deep. RabbitMQ passes them on; pamqp raises, aiormq then drops the whole
connection, and the broker hands the same message out again: one message stops a service for good. So what cannot
be decoded arrives as None (an undecodable header table as an empty one) and is refused like any other bad input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pamqp import decode

_Decoder = Callable[[bytes], tuple[int, Any]]


def tolerate_foreign_properties() -> None:
    """Make the property decoders of this process tolerant. Repeating it changes nothing."""
    decode.METHODS["shortstr"] = _short_text
    decode.METHODS["timestamp"] = timestamp
    decode.METHODS["table"] = table


def _short_text(value: bytes) -> tuple[int, str | None]:
    end = value[0] + 1
    try:
        return end, value[1:end].decode()
    except UnicodeDecodeError:
        return end, None


def _tolerant(decoder: _Decoder, length: Callable[[bytes], int], instead: Callable[[], Any]) -> _Decoder:
    def decode_or_replace(value: bytes) -> tuple[int, Any]:
        try:
            return decoder(value)
        except (ValueError, ArithmeticError, LookupError, RecursionError):
            return length(value), instead()

    return decode_or_replace


timestamp = _tolerant(decode.timestamp, length=lambda _: 8, instead=lambda: None)
"""Bytes taken and the time, or None for one beyond the calendar."""
table = _tolerant(decode.field_table, length=lambda value: 4 + int.from_bytes(value[:4], "big"), instead=dict)
"""Bytes taken and the headers, or none at all if one of them cannot be decoded."""
