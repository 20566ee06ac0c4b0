"""What is checked before a message is handed to the channel: a bad one there would close it for its neighbours."""

from __future__ import annotations

from typing import Final

from triumvir.broker.messages import Outcome, OutMessage
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

MAX_BODY: Final = 16 * 1024 * 1024 - 64 * 1024
"""Bytes. RabbitMQ 4 takes 16 MiB by default; the margin is for what others count as well."""
_MAX_SHORT: Final = 255
_MAX_HEADER_NAME: Final = 128
"""Bytes. pamqp cuts longer ones."""
_MAX_HEADERS: Final = 64 * 1024
"""Bytes. Properties must fit into one frame (128 KiB by default), else the broker closes the connection."""

_log = get_logger("triumvir.broker")


def fault_of(message: OutMessage, user: str, max_body: int) -> str | None:
    """Why ``message`` cannot be published by ``user``, in words; None if it can."""
    if len(message.body) > max_body:
        return f"body of {len(message.body)} bytes; at most {max_body} can be sent"
    if message.user_id is not None and message.user_id != user:
        return f"user_id {message.user_id!r} is not the connection's user {user!r}"
    if not message.message_id:
        return "no message_id"
    try:
        return _too_long(message)
    except (AttributeError, TypeError, UnicodeEncodeError) as error:
        return f"a property is no text: {error}"


def refuse(message: OutMessage, fault: str) -> Outcome:
    """Say in the log why ``message`` cannot be sent; REFUSED."""
    _log.error(events.MESSAGE_REFUSED, message_id=message.message_id[:255], type=message.type, fault=fault)
    return Outcome.REFUSED


def _too_long(message: OutMessage) -> str | None:
    for name in ("message_id", "correlation_id", "type", "reply_to", "routing_key", "exchange"):
        value: str | None = getattr(message, name)
        if value is not None and _size(value) > _MAX_SHORT:
            return f"{name} of {_size(value)} bytes; at most {_MAX_SHORT} can be sent"
    total = 0
    for key, value in message.headers.items():
        if _size(key) > _MAX_HEADER_NAME:
            return f"header name of {_size(key)} bytes; at most {_MAX_HEADER_NAME} can be sent"
        total += _size(key) + _size(value)
    return f"headers of {total} bytes; at most {_MAX_HEADERS} can be sent" if total > _MAX_HEADERS else None


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
