"""A TCP proxy before the broker, to break the network on purpose."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

BASIC_ACK = b"\x00\x3c\x00\x50"
BASIC_CANCEL = b"\x00\x3c\x00\x1e"


class Proxy:
    """Passes bytes both ways until told otherwise. ``url`` is the broker's, by way of this proxy; with ``tls`` it
    speaks that to clients.
    """

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        self._target = urlsplit(url)
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        self._swallowed: bytes | None = None
        self._to_clients: set[asyncio.StreamWriter] = set()
        self._one_by_one = False
        self.swallowed = 0

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        account = f"{self._target.username}:{self._target.password}"
        if self._tls is not None:
            return self._target._replace(scheme="amqps", netloc=f"{account}@localhost:{port}").geturl()
        return self._target._replace(netloc=f"{account}@127.0.0.1:{port}").geturl()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._writers) // 2

    def cut(self) -> None:
        """Reset every connection. New ones are accepted."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    def blackhole(self) -> None:
        """Take every byte and pass none on; connections stay open, new ones get no answer."""
        self._passing.clear()

    @property
    def is_blackholed(self) -> bool:
        return not self._passing.is_set()

    def heal(self) -> None:
        """Pass bytes again, those held back included."""
        self._passing.set()

    def swallow(self, method: bytes | None) -> None:
        """Keep frames of this AMQP method from the client, or none any more; ``swallowed`` counts them."""
        self._swallowed = method

    def dribble(self) -> None:
        """From now on every byte reaches the client by itself."""
        self._one_by_one = True

    def inject(self, data: bytes) -> None:
        """Send this to every client, between two frames of the broker."""
        for writer in self._to_clients:
            writer.write(data)

    def cut_after(self, data: bytes) -> None:
        """Send this to every client, and then close in order, as a broker that dies within a frame."""
        self.inject(data)
        for writer in tuple(self._to_clients):
            writer.close()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for pipe in tuple(self._pipes):
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(self._target.hostname, self._target.port)
        except OSError:  # the server is away, and so is this
            writer.transport.abort()
            return
        self._to_clients.add(writer)
        for pump, source, sink in ((self._pipe, reader, back), (self._pipe_frames, there, writer)):
            self._writers.add(sink)
            pipe = asyncio.get_running_loop().create_task(pump(source, sink))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    async def _pipe(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                await self._pass_on(data, sink)
        except ConnectionError:
            pass  # cut, by us or by one of the two ends
        finally:
            self._writers.discard(sink)
            sink.close()

    async def _pipe_frames(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await source.readexactly(7)
                frame = head + await source.readexactly(int.from_bytes(head[3:], "big") + 1)
                if self._swallowed is not None and head[0] == 1 and frame[7:11] == self._swallowed:
                    self.swallowed += 1
                else:
                    await self._pass_on(frame, sink)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # cut, by us or by one of the two ends
        finally:
            self._writers.discard(sink)
            self._to_clients.discard(sink)
            sink.close()

    async def _pass_on(self, data: bytes, sink: asyncio.StreamWriter) -> None:
        await self._passing.wait()
        if self._one_by_one and sink in self._to_clients:
            for at in range(len(data)):
                sink.write(data[at : at + 1])
                await asyncio.sleep(0)
        else:
            sink.write(data)
        await sink.drain()


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[Proxy]:
    """A running proxy before the broker at ``url``."""
    proxy = Proxy(url)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
