"""What a broker sends, as the client library's own codec writes it."""

from __future__ import annotations

from typing import Any

from pamqp import commands, frame
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

CONSUMER = "work.1"


def sent(number: int, *parts: Frame | ContentHeader | ContentBody) -> bytes:
    return b"".join(frame.marshal(part, number) for part in parts)


def opened(number: int) -> bytes:
    return sent(number, commands.Channel.OpenOk())


def closed(number: int, text: str = "NOT_FOUND - no exchange") -> bytes:
    return sent(number, commands.Channel.Close(404, text, 60, 40))


def close_ok(number: int) -> bytes:
    return sent(number, commands.Channel.CloseOk())


def delivery(
    number: int, tag: int, body: bytes, *, to: str = CONSUMER, most: int = 1000, **fields: Any
) -> bytes:
    """A delivery whose body comes in frames of ``most`` bytes."""
    method = commands.Basic.Deliver(to, tag, redelivered=tag % 2 == 0, exchange="x", routing_key="work")
    return sent(number, method) + content(number, body, most, **fields)


def returned(number: int, message_id: str) -> bytes:
    method = commands.Basic.Return(312, "NO_ROUTE", "x", "work")
    return sent(number, method) + content(number, b"it came back", 1000, message_id=message_id)


def content(number: int, body: bytes, most: int, **fields: Any) -> bytes:
    header = ContentHeader(body_size=len(body), properties=commands.Basic.Properties(**fields))
    parts = [ContentBody(body[start : start + most]) for start in range(0, len(body), most)]
    return sent(number, header, *parts)


def ack(number: int, tag: int, *, multiple: bool = False) -> bytes:
    return sent(number, commands.Basic.Ack(tag, multiple))


def nack(number: int, tag: int, *, multiple: bool = False) -> bytes:
    return sent(number, commands.Basic.Nack(tag, multiple, requeue=False))
