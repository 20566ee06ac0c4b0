"""A TCP proxy before a real server that changes one thing the server says of itself: its version, or its time."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from functools import partial
from typing import Final
from urllib.parse import urlsplit

Mask = Callable[[socket.SocketIO], Iterator[bytes]]
"""Turns what a server sends on one connection into what its client gets."""

_TLS_REQUEST: Final = struct.pack(">II", 8, 80877103)
"""How a Postgres client asks for TLS; a mask cannot offer it, and says so as Postgres would."""
_AMQP_START: Final = b"\x00\x0a\x00\x0a"
_TIMESTAMPTZ: Final = 1184
_HTTP_DATE: Final = re.compile(rb"(?i)(?<=\r\ndate: )[^\r]+")


@contextmanager
def masked(url: str, mask: Mask) -> Iterator[str]:
    """The URL of ``url``'s server behind a mask, for as long as the context lasts. Runs in threads of its own."""
    place = urlsplit(url)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(
            target=_serve, args=(listener, (place.hostname, place.port), mask), daemon=True
        )
        thread.start()
        account = f"{place.username}:{place.password}"
        yield place._replace(netloc=f"{account}@127.0.0.1:{listener.getsockname()[1]}").geturl()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def _serve(listener: socket.socket, place: tuple[str, int], mask: Mask) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return  # the context ends
        server = socket.create_connection(place)
        for pump in (partial(_ask, client, server), partial(_answer, server, client, mask)):
            threading.Thread(target=pump, daemon=True).start()


def _ask(client: socket.socket, server: socket.socket) -> None:
    try:
        if client.recv(8, socket.MSG_PEEK) == _TLS_REQUEST:
            client.recv(8)
            client.sendall(b"N")
        while data := client.recv(65_536):
            server.sendall(data)
        server.shutdown(socket.SHUT_WR)
    except OSError:
        return  # either end has gone, and the other pump with it


def _answer(server: socket.socket, client: socket.socket, mask: Mask) -> None:
    with server, client, server.makefile("rb", buffering=0) as said:
        try:
            for data in mask(said):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)  # ends the other pump, too
        except OSError:
            return  # either end has gone


def _exactly(said: socket.SocketIO, length: int) -> bytes:
    data = b""
    while len(data) < length and (more := said.read(length - len(data))):
        data += more
    return data


def rabbitmq_of_version(version: str) -> Mask:
    """RabbitMQ that gives ``version`` in its ``connection.start``."""

    def mask(said: socket.SocketIO) -> Iterator[bytes]:
        while head := _exactly(said, 7):
            kind, channel, size = struct.unpack(">BHI", head)
            payload = _exactly(said, size)
            if payload.startswith(_AMQP_START):
                payload = _with_version(payload, version.encode())
            yield struct.pack(">BHI", kind, channel, len(payload)) + payload + _exactly(said, 1)

    return mask


def _with_version(start: bytes, version: bytes) -> bytes:
    """The server's properties are a table after four bytes of method and two of protocol version."""
    (length,) = struct.unpack_from(">I", start, 6)
    table, rest = start[10 : 10 + length], start[10 + length :]
    value = table.index(b"\x07versionS") + len(b"\x07versionS")
    (old,) = struct.unpack_from(">I", table, value)
    table = table[:value] + struct.pack(">I", len(version)) + version + table[value + 4 + old :]
    return start[:6] + struct.pack(">I", len(table)) + table + rest


def _postgres(change: Callable[[bytes, bytes], bytes]) -> Mask:
    def mask(said: socket.SocketIO) -> Iterator[bytes]:
        while kind := said.read(1):
            (length,) = struct.unpack(">I", _exactly(said, 4))
            body = change(kind, _exactly(said, length - 4))
            yield kind + struct.pack(">I", len(body) + 4) + body

    return mask


def postgres_of_version(version: str) -> Mask:
    """Postgres that gives ``version`` as its parameter ``server_version``."""

    def change(kind: bytes, body: bytes) -> bytes:
        told = kind == b"S" and body.startswith(b"server_version\x00")
        return b"server_version\x00" + version.encode() + b"\x00" if told else body

    return _postgres(change)


def postgres_whose_clock_is_off(by: timedelta) -> Mask:
    """Postgres whose answers of one ``timestamptz`` named ``now`` are ``by`` later than they were."""
    asked = False

    def change(kind: bytes, body: bytes) -> bytes:
        nonlocal asked
        if kind == b"T":
            asked = (
                body.startswith(b"\x00\x01now\x00") and struct.unpack_from(">I", body, 12)[0] == _TIMESTAMPTZ
            )
        if kind != b"D" or not asked:
            return body
        columns, size, microseconds = struct.unpack(">HIq", body)
        return struct.pack(">HIq", columns, size, microseconds + by // timedelta(microseconds=1))

    return _postgres(change)


def management_whose_clock_is_off(by: timedelta) -> Mask:
    """A management API whose answers are dated ``by`` later than they were."""

    def later(found: re.Match[bytes]) -> bytes:
        return format_datetime(parsedate_to_datetime(found[0].decode()) + by, usegmt=True).encode()

    def mask(said: socket.SocketIO) -> Iterator[bytes]:
        while data := said.read(65_536):
            yield _HTTP_DATE.sub(later, data)

    return mask
