"""One cluster for many tests: starting five processes for each of sixty crash points would take an hour."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Self

from tests.faults.cluster import Cluster
from tests.servers import SCHEMA, ServerSet
from triumvir.settings import Settings


class SharedCluster:
    """Each test takes it for its duration, and leaves it sound; after a failure the next test gets a new one."""

    def __init__(self, servers: ServerSet, folder: Path) -> None:
        self._servers = servers
        self._folder = folder
        self._lives = 0
        self._cluster: Cluster | None = None
        self._stack = AsyncExitStack()
        shutil.rmtree(folder, ignore_errors=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        sound = self._cluster is not None
        await self._stack.aclose()
        if sound:
            shutil.rmtree(self._folder / str(self._lives))

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[Cluster]:
        """The running cluster."""
        cluster, self._cluster = self._cluster or await self._start(), None
        yield cluster
        self._cluster = cluster

    async def _start(self) -> Cluster:
        await self._stack.aclose()
        self._lives += 1
        folder = self._folder / str(self._lives)
        folder.mkdir(parents=True)
        settings = Settings(
            broker_url=self._stack.enter_context(self._servers.vhost()),
            management_url=self._servers.management_url,
            database_url=self._stack.enter_context(self._servers.database()),
            database_schema=SCHEMA,
            quorum_queues=False,
        )
        cluster = await self._stack.enter_async_context(Cluster(settings, folder, seed=self._lives))
        await cluster.start()
        return cluster
