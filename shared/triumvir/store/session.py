"""Connections: one plain connection per stage of a service, opened when needed and opened again when lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import asyncpg

from triumvir.errors import StoreError
from triumvir.settings import Settings
from triumvir.store.faults import DATABASE_ERRORS, loses_connection
from triumvir.store.migrate import check_schema
from triumvir.store.statements import Connection

CONNECT_SECONDS: Final = 5.0
OLDEST_SERVER: Final = 14

# Every hot statement goes by key. On a young table the planner would rather hash-join against all of it, and
# keep that plan as the table grows; so services tell it not to.
_PINNED_PLANS: Final = {
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}


class Session:
    """One connection for one stage. Not for concurrent use: a second ``transaction`` waits for the first."""

    def __init__(self, settings: Settings, name: str | Callable[[], Awaitable[asyncpg.Connection]]) -> None:
        """``name``: of the connection, as Postgres shows it; or how to open another than the usual one."""
        self._connect = partial(connect, settings, name) if isinstance(name, str) else name
        self._connection: asyncpg.Connection | None = None
        self.connects = 0
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A transaction: committed on leaving, rolled back when the body raises.

        An error out of the commit itself leaves the outcome unknown; the connection is not used again.
        """
        async with self._turn:
            connection = await self._open()
            try:
                async with connection.transaction():
                    yield connection
            except BaseException as error:
                if loses_connection(error):
                    self._abandon()
                raise

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """The connection for single statements, each its own transaction."""
        async with self._turn:
            connection = await self._open()
            try:
                yield connection
            except BaseException as error:
                if loses_connection(error):
                    self._abandon()
                raise

    async def close(self) -> None:
        """Closes the connection, within a bounded time."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            try:
                await connection.close(timeout=2)
            except DATABASE_ERRORS:
                connection.terminate()

    def _abandon(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def _open(self) -> asyncpg.Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connect()
            self.connects += 1
        return self._connection


async def connect(settings: Settings, name: str, url: str | None = None) -> asyncpg.Connection:
    """A connection with the schema, time-outs and pinned plans of a service; to the state repository, if no ``url`` is
    given. Raises StoreError.
    """
    timeout = settings.statement_timeout.total_seconds()
    try:
        return await asyncpg.connect(
            url or settings.database_url,
            timeout=CONNECT_SECONDS,
            command_timeout=timeout + 5,
            server_settings={
                "application_name": f"triumvir {name}"[:63],
                "search_path": settings.database_schema,
                "timezone": "UTC",
                "statement_timeout": str(round(timeout * 1000)),
                "lock_timeout": str(round(timeout * 1000)),
                "idle_in_transaction_session_timeout": str(round(timeout * 2000)),
                **_PINNED_PLANS,
            },
        )
    except (*DATABASE_ERRORS, ValueError) as error:
        raise StoreError(f"Postgres cannot be reached: {str(error) or type(error).__name__}") from None


class Store:
    """The sessions of one process. ``probe`` is for looks that are nobody's hot path."""

    def __init__(self, settings: Settings, service: str) -> None:
        self._settings = settings
        self._service = service
        self._sessions: list[Session] = []
        self.probe = self.session("probe")

    def session(self, stage: str) -> Session:
        """A session for one stage of the service; closed with the store."""
        session = Session(self._settings, f"{self._service} {stage}")
        self._sessions.append(session)
        return session

    def connects(self) -> int:
        """How many connections its sessions opened so far: one more after each that was lost."""
        return sum(session.connects for session in self._sessions)

    async def __aenter__(self) -> Store:
        async with self.probe.connection() as connection:
            if connection.get_server_version().major < OLDEST_SERVER:
                raise StoreError(f"Postgres {OLDEST_SERVER} or newer is needed")
            await check_schema(connection, self._settings.database_schema)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(session.close() for session in self._sessions))

    async def ready(self) -> str | None:
        """What is wrong with the database, or None; for /readyz."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS), self.probe.connection() as connection:
                await connection.fetchval("select 1")
        except (StoreError, *DATABASE_ERRORS) as error:
            return f"database: {str(error) or type(error).__name__}"
        return None
