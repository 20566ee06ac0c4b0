"""The socket under the client library: its factory of transports, with a splitter between socket and reader."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, Final, cast

from aiormq import AMQPConnectionError, TransportFactory
from yarl import URL

from triumvir.broker.fast import frames
from triumvir.broker.fast.splitter import Splitter
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

_SIGN_OF_LIFE: Final = 1.0
"""Seconds. The client library takes a server for dead when it sees no frame; hot ones it does not see."""

_log = get_logger("triumvir.broker")


class Stream(asyncio.Protocol):
    """One connection. What is not hot goes to ``below``, as if nothing stood in between."""

    def __init__(self, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
        self.below = asyncio.StreamReaderProtocol(reader, loop=loop)
        self.splitter = Splitter(self._write)
        self.takes_more = asyncio.Event()
        """Whether what is written is sent soon; not set while the socket's buffer is full."""
        self.takes_more.set()
        self._reader = weakref.ref(reader)
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._speaks_amqp: bool | None = None
        self._passed_at = 0.0
        self._took = 0
        self._given_up = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.below.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._given_up:
            return
        if self._speaks_amqp is None:
            self._speaks_amqp = data[0] == frames.METHOD
        if not self._speaks_amqp:
            self.below.data_received(
                data
            )  # another version, or no AMQP at all: the client library has words for it
            return
        try:
            passed = self.splitter.feed(data)
        except Exception as error:  # noqa: BLE001 - whatever it is, the rest of the stream cannot be read
            self._give_up(error)
            return
        self._pass_on(passed)

    def eof_received(self) -> bool | None:
        return self.below.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.takes_more.set()
        self.splitter.end(f"the connection was lost: {exc or 'closed by the server'}")
        self.below.connection_lost(exc)

    def pause_writing(self) -> None:
        self.takes_more.clear()
        self.below.pause_writing()

    def resume_writing(self) -> None:
        self.takes_more.set()
        self.below.resume_writing()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _pass_on(self, passed: bytes) -> None:
        now = self._loop.time()
        if passed:
            self._passed_at = now
            self.below.data_received(passed)
        elif self.splitter.took != self._took and now - self._passed_at >= _SIGN_OF_LIFE:
            self._passed_at = now
            self.below.data_received(frames.HEARTBEAT)
        self._took = self.splitter.took

    def _give_up(self, error: Exception) -> None:
        """End this connection, and nothing else: it is opened again like any other that was lost."""
        bug = None if isinstance(error, frames.BadFrame) else error
        _log.error(events.BROKER_STREAM_UNREADABLE, problem=str(error) or repr(error), exc_info=bug)
        reader = self._reader()
        if reader is not None:
            reader.set_exception(ConnectionError(f"the stream cannot be read: {error}"))
        self._given_up = True
        self.splitter.end("the stream could not be read")
        if self._transport is not None:
            self._transport.abort()


class _Writer(asyncio.StreamWriter):
    """The client library's way to the socket; the splitter sees what it closes."""

    stream: Stream

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.stream.splitter.sent(bytes(data))
        super().write(data)


class Streams(TransportFactory):
    """Opens the streams of one connection object, one at a time; ``current`` is the last."""

    def __init__(self) -> None:
        self.current: Stream | None = None

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, by TLS for ``amqps``. ``url`` has host and port. Raises AMQPConnectionError."""
        provider = kwargs.pop("ssl_context_provider", None)
        context = await provider.get_context() if url.scheme == "amqps" else None
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        try:
            transport, stream = await loop.create_connection(
                lambda: Stream(reader, loop), url.host or "", url.port or 0, ssl=context, **kwargs
            )
        except OSError as error:
            raise AMQPConnectionError(*error.args) from error
        writer = _Writer(transport, stream.below, reader, loop)
        writer.stream = stream
        self.current = stream
        return reader, writer
