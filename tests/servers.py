"""The servers tests run against: given ones, containers, or private native ones, in this order."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import urllib.parse
import urllib.request
import warnings
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Literal, TypeVar

import asyncpg

from tests import containers
from triumvir.local import PrivateServers

SCHEMA = "triumvir"
QUICK = {"collect_statistics_interval": "500"}
"""Have a private broker count its queues and list its connections twice a second instead of every five."""

Origin = Literal["given", "containers", "private"]
_GIVEN = ("TRIUMVIR_TEST_BROKER_URL", "TRIUMVIR_TEST_MANAGEMENT_URL", "TRIUMVIR_TEST_DATABASE_URL")
_T = TypeVar("_T")


def choose() -> Origin:
    """Which servers this run will use. Raises ValueError when only some of them are given."""
    given = [name for name in _GIVEN if os.environ.get(name)]
    if given and len(given) < len(_GIVEN):
        raise ValueError(f"{', '.join(given)} given; give all of {', '.join(_GIVEN)}")
    if given:
        return "given"
    return "containers" if containers.engine_answers() else "private"


@contextmanager
def started(origin: Origin) -> Iterator[ServerSet]:
    """Servers of that origin for as long as the context lasts; private ones, with a warning, where images lack."""
    with ExitStack() as stack:
        if origin == "given":
            yield ServerSet(*(os.environ[name] for name in _GIVEN))
            return
        if origin == "containers":
            try:
                urls = stack.enter_context(containers.started())
            except containers.NoImages as error:
                warnings.warn(f"private native servers instead of containers: {error}", stacklevel=1)
            else:
                yield ServerSet(*urls)
                return
        yield ServerSet.of(stack.enter_context(PrivateServers(broker_settings=QUICK)))


class ServerSet:
    """One broker and one database, cut into a vhost and a database per test."""

    def __init__(self, broker_url: str, management_url: str, database_url: str) -> None:
        self.broker_url = broker_url
        self.management_url = management_url
        self.database_url = database_url
        self._template: str | None = None

    @classmethod
    def of(cls, servers: PrivateServers) -> ServerSet:
        return cls(servers.broker.url, servers.broker.management_url, servers.database.url)

    @contextmanager
    def vhost(self) -> Iterator[str]:
        """The AMQP URL of a new vhost, deleted afterwards with all in it."""
        name = f"test-{secrets.token_hex(6)}"
        self.manage("PUT", f"vhosts/{name}")
        try:
            yield urllib.parse.urlsplit(self.broker_url)._replace(path=f"/{name}").geturl()
        finally:
            self.manage("DELETE", f"vhosts/{name}")

    def manage(self, method: str, path: str, content: object = None) -> bytes:
        """A request to the broker's management API at ``/api/<path>``; the body of the answer."""
        url = urllib.parse.urlsplit(self.management_url)
        credentials = b64encode(f"{url.username}:{url.password}".encode()).decode()
        headers = {"Authorization": f"Basic {credentials}", "Content-Type": "application/json"}
        request = urllib.request.Request(
            f"http://{url.hostname}:{url.port}/api/{path}",
            data=None if content is None else json.dumps(content).encode(),
            method=method,
            headers=headers,
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            body: bytes = response.read()
        return body

    @contextmanager
    def database(self, *, migrated: bool = True) -> Iterator[str]:
        """The URL of a new database, dropped afterwards; migrated ones are copies of a template."""
        template = self._migrated_template() if migrated else "template1"
        name = f"test_{secrets.token_hex(6)}"
        self._execute(f"create database {name} template {template}")
        try:
            yield self._url_of(name)
        finally:
            self._execute(f"drop database {name} with (force)")

    def _migrated_template(self) -> str:
        if self._template is None:
            from triumvir.store.migrate import migrate

            name = f"template_{secrets.token_hex(6)}"
            self._execute(f"create database {name}")
            blocking(lambda: migrate(self._url_of(name), SCHEMA))
            self._template = name
        return self._template

    def close(self) -> None:
        """Drop the template; the servers may belong to somebody."""
        if self._template is not None:
            self._execute(f"drop database {self._template} with (force)")
            self._template = None

    def _url_of(self, database: str) -> str:
        return urllib.parse.urlsplit(self.database_url)._replace(path=f"/{database}").geturl()

    def _execute(self, statement: str) -> None:
        async def execute() -> None:
            connection = await asyncpg.connect(self.database_url, timeout=30)
            try:
                await connection.execute(statement)
            finally:
                await connection.close()

        blocking(execute)


def blocking(work: Callable[[], Awaitable[_T]]) -> _T:
    """Run asynchronous work to its end from a plain fixture, whether or not a loop runs in this thread."""

    async def main() -> _T:
        return await work()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(main())).result()
