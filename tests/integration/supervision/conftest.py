"""Supervisors on real servers, as many as a test wants, each pass made when the test says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any
from uuid import uuid4

import aio_pika
import asyncpg
import pytest

from tests.integration.broker.proxy import Proxy
from tests.servers import SCHEMA
from triumvir.broker import WAKE, Connection, Publisher, client_topology, connect, core_topology, declare
from triumvir.runtime.decisions import Decider
from triumvir.runtime.definitions import Definitions
from triumvir.runtime.relay import Relay
from triumvir.settings import Settings
from triumvir.store.operators import apply_workflow
from triumvir.store.session import Session
from triumvir.store.statements import statement
from triumvir.workflow import Step, Workflow
from triumvir_supervisor.aged import AgedOrders
from triumvir_supervisor.overdue import Overdue

SOLO = Workflow("solo", 1, [Step("a", agent="lab", operation="a", undo="un-a")])
SETTINGS: dict[str, Any] = {
    "supervisor_grace": timedelta(0),
    "reopen_backoff": timedelta(minutes=5),
    "unclaimed_limit": timedelta(minutes=10),
    "held_limit": timedelta(minutes=15),
}


class DatabaseProxy(Proxy):
    """The proxy of the broker's tests, before Postgres."""

    async def _pipe_frames(self, source: Any, sink: Any) -> None:
        await self._pipe(source, sink)


class Supervisor:
    """What one process of them is made of."""

    def __init__(self, settings: Settings, broker: Connection, name: str) -> None:
        self.instance = uuid4()
        self.name = name
        self._settings = settings
        self._sessions = [Session(settings, f"{name} {stage}") for stage in ("overdue", "aged", "outbox")]
        overdue, aged, outbox = self._sessions
        self._publisher = Publisher(broker, timeout=20)
        self._relay = Relay(self._publisher, outbox)
        decider = Decider("supervisor", self.instance, settings, Definitions())
        self.overdue = Overdue(overdue, self._relay, decider, settings)
        self.aged = AgedOrders(aged, self._relay, decider, settings)

    async def live(self) -> None:
        """Takes its lease."""
        await statement("renew_instance").rows(
            await self._sessions[0]._open(),
            id=self.instance, service="supervisor", host="here", pid=1, release="test", operations=[], slots=0,
            lease_seconds=60.0,
        )  # fmt: skip

    async def close(self) -> None:
        await self._relay.drain()
        await self._publisher.close()
        for session in self._sessions:
            await session.close()


class Desk:
    """The store, and supervisors over it."""

    def __init__(self, settings: Settings, broker: Connection, stack: AsyncExitStack) -> None:
        self.settings = settings
        self._broker = broker
        self._stack = stack
        self.db: asyncpg.Connection

    async def open(self) -> None:
        self.db = await asyncpg.connect(self.settings.database_url, server_settings={"search_path": SCHEMA})
        self._stack.push_async_callback(self.db.close)
        await apply_workflow(self.db, SOLO)

    async def supervisor(self, name: str = "one", **settings: Any) -> Supervisor:
        """One more, alive; ``settings`` are its own."""
        own = Settings(**{**self.settings.model_dump(), **SETTINGS, **settings})
        supervisor = Supervisor(own, self._broker, name)
        self._stack.push_async_callback(supervisor.close)
        await supervisor.live()
        return supervisor

    async def proxied(self) -> DatabaseProxy:
        """A way to the database that can be cut off."""
        proxy = DatabaseProxy(self.settings.database_url)
        await proxy.start()
        self._stack.push_async_callback(proxy.stop)
        return proxy

    async def failures(self) -> list[int]:
        """The failures of each order, by number."""
        return [
            row["failure_count"]
            for row in await self.db.fetch("select failure_count from orders order by no")
        ]

    async def hints(self) -> int:
        """How many wait for schedulers."""
        async with await aio_pika.connect(self.settings.broker_url) as connection:
            queue = await (await connection.channel()).declare_queue(WAKE, passive=True)
            return queue.declaration_result.message_count or 0

    async def history(self, no: int) -> list[str]:
        rows = await self.db.fetch("select why from transitions where no = $1 order by n", no)
        return [row["why"] for row in rows]


@pytest.fixture
async def desk(settings: Settings) -> AsyncIterator[Desk]:
    async with AsyncExitStack() as stack:
        broker = await connect(settings.broker_url, "test")
        stack.push_async_callback(broker.close)
        await declare(broker, core_topology(quorum=False) + client_topology("shop", quorum=False))
        desk = Desk(settings, broker, stack)
        await desk.open()
        yield desk
