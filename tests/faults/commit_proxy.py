"""A TCP proxy before Postgres that keeps the answer to a commit from the client, and cuts the connection.

Which connections are hit is told by their ``application_name``: each stage of each service has its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Callable
from typing import Final, Literal
from urllib.parse import urlsplit

_NAME: Final = re.compile(rb"application_name\x00([^\x00]*)\x00")
_COMMIT: Final = re.compile(rb"Q....commit;?\x00", re.IGNORECASE | re.DOTALL)
_EXECUTE: Final = re.compile(rb"B....[^\x00]*\x00.*E....", re.DOTALL)
_BEGIN: Final = re.compile(rb"Q....begin;?\x00", re.IGNORECASE | re.DOTALL)
_END: Final = re.compile(rb"Q....(commit|rollback);?\x00", re.IGNORECASE | re.DOTALL)
_PARSE_WRITE: Final = re.compile(rb"P....([^\x00]*)\x00[^\x00]*with (?:moved|documents) as", re.DOTALL)
_BIND: Final = re.compile(rb"B....[^\x00]*\x00([^\x00]*)\x00", re.DOTALL)


Moment = Literal["connecting", "commit sent", "commit answered"]


class CommitProxy:
    """``swallow(name, n)``: the next n commits of connections of that name are carried out and not answered.

    Statements that are a transaction of their own count as commits on connections named in ``single``, and on every
    connection the ones that create orders and write decisions, where they stand alone. ``swallowed`` counts by name.
    ``hook(name, moment, do)``: ``do`` is called once, when a connection of that name is there, before any byte goes on.
    """

    def __init__(self, database_url: str, single: frozenset[str] = frozenset()) -> None:
        self._target = urlsplit(database_url)
        self._single = single
        self._wanted: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self._hooks: dict[tuple[str, Moment], Callable[[], object]] = {}
        self.swallowed: Counter[str] = Counter()
        self.seen: set[str] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        account = f"{self._target.username}:{self._target.password}"
        return self._target._replace(netloc=f"{account}@127.0.0.1:{port}").geturl()

    def swallow(self, name: str, times: int) -> None:
        self._wanted[name] += times

    def withdraw(self, name: str) -> None:
        """What was to be swallowed and was not is let through."""
        del self._wanted[name]

    def hook(self, name: str, moment: Moment, do: Callable[[], object]) -> None:
        self._hooks[name, moment] = do

    def is_at(self, name: str, moment: Moment) -> None:
        """A connection of that name is there."""
        self._hooks.pop((name, moment), lambda: None)()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for pipe in tuple(self._pipes):
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(self._target.hostname, self._target.port)
        except OSError:  # the database is away, and so is this
            writer.transport.abort()
            return
        link = _Link(self, writer)
        for pump in (link.to_server(reader, back), link.to_client(there, writer)):
            pipe = asyncio.get_running_loop().create_task(pump)
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    def takes(self, name: str, sent: bytes, *, writes_alone: bool) -> bool:
        """Whether the answer to what was just sent will be swallowed."""
        commits = writes_alone or _COMMIT.search(sent) or (name in self._single and _EXECUTE.search(sent))
        if not commits or self._wanted[name] == 0:
            return False
        self._wanted[name] -= 1
        return True


class _Link:
    """One connection through the proxy."""

    def __init__(self, proxy: CommitProxy, client: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = client
        self._name = ""
        self._swallowing = False
        self._committing = False
        self._in_transaction = False
        self._writes: set[bytes] = set()
        """Names of the prepared statements that create orders and write decisions."""

    def _writes_alone(self, sent: bytes) -> bool:
        """Whether orders are written by a statement outside of any transaction."""
        self._writes.update(parsed[1] for parsed in _PARSE_WRITE.finditer(sent))
        if _BEGIN.search(sent):
            self._in_transaction = True
        bound = {bind[1] for bind in _BIND.finditer(sent)}
        alone = not self._in_transaction and bool(bound & self._writes)
        if _END.search(sent):
            self._in_transaction = False
        return alone

    async def to_server(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65_536):
                if not self._name and (named := _NAME.search(data)):
                    self._name = named[1].decode()
                    self._proxy.seen.add(self._name)
                    self._proxy.is_at(self._name, "connecting")
                if _COMMIT.search(data):
                    self._committing = True
                    self._proxy.is_at(self._name, "commit sent")
                alone = self._writes_alone(data)
                self._swallowing = self._swallowing or self._proxy.takes(self._name, data, writes_alone=alone)
                sink.write(data)
                await sink.drain()
        sink.close()

    async def to_client(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65_536):
                if self._swallowing:
                    self._proxy.swallowed[self._name] += 1
                    self._client.transport.abort()
                    return
                if self._committing:
                    self._committing = False
                    self._proxy.is_at(self._name, "commit answered")
                sink.write(data)
                await sink.drain()
        sink.close()
