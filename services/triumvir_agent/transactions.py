"""``ctx.transaction``: an operation's own writes and the record of its success, in one commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from triumvir.contracts.messages import StepRequest
from triumvir.errors import Permanent, Transient
from triumvir.settings import Settings
from triumvir.store.business import BusinessConnection, open_connection
from triumvir.store.faults import DATABASE_ERRORS
from triumvir.store.statements import statement
from triumvir_agent.inbox import FIRST_PAUSE, LONGEST_PAUSE, Inbox
from triumvir_agent.requests import key_of

MOST_CONNECTIONS: Final = 8


class Connections:
    """Connections for the transactions of operations: opened when needed, a bounded number, kept for reuse.

    What an operation set for its session must not reach the next order. It is taken back between the two, when the
    operation has its commit and nobody waits, unless all connections are in use.
    """

    def __init__(self, settings: Settings, most: int = MOST_CONNECTIONS) -> None:
        self._settings = settings
        self._room = asyncio.Semaphore(most)
        self._idle: list[BusinessConnection] = []
        self._resets: set[asyncio.Task[None]] = set()

    async def acquire(self) -> BusinessConnection:
        await self._room.acquire()
        try:
            while self._idle:
                connection = self._idle.pop()
                if not connection.is_closed():
                    return connection
            return await open_connection(self._settings)
        except BaseException:
            self._room.release()
            raise

    def release(self, connection: BusinessConnection, *, sound: bool) -> None:
        """Gives it back; one whose state is not certain is cut off, which rolls back what it had open."""
        if not sound or connection.is_closed():
            connection.terminate()
            self._room.release()
            return
        task = asyncio.get_running_loop().create_task(self._make_new(connection))
        self._resets.add(task)
        task.add_done_callback(self._resets.discard)

    async def _make_new(self, connection: BusinessConnection) -> None:
        """Its place is free only then: at no time is more than the bounded number open."""
        try:
            if await connection.as_new():
                self._idle.append(connection)
            else:
                connection.terminate()
        except BaseException:
            connection.terminate()
            raise
        finally:
            self._room.release()

    async def close(self) -> None:
        await asyncio.gather(*self._resets, return_exceptions=True)
        for connection in self._idle:
            connection.terminate()
        self._idle.clear()


class RequestTransaction:
    """The transaction of one request. Stays open when the operation leaves its block, until the result is known."""

    def __init__(self, connections: Connections, inbox: Inbox, request: StepRequest) -> None:
        self._connections = connections
        self._inbox = inbox
        self._request = request
        self._connection: BusinessConnection | None = None

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[BusinessConnection]:
        """Opens it; rolled back at once if the block raises."""
        if self._connection is not None:
            problem = "ctx.transaction() was entered twice in one call; do all writes in one block"
            raise Permanent(problem, effect="unknown")
        self._connection = await self._connections.acquire()
        try:
            await self._connection.execute("begin")
            yield self._connection
        except BaseException:
            self.abandon()
            raise

    async def commit(self, result: str) -> bool | None:
        """Records the result and commits. False: the attempt was fenced off, and everything was rolled back.
        None: no transaction is open.

        A commit of unknown outcome is looked up in the inbox until that answers.
        """
        connection = self._connection
        if connection is None:
            return None
        no, step_no, direction = key_of(self._request)
        try:
            row = await statement("finish_in_transaction").value(
                connection, no=no, step_no=step_no, direction=direction, fence=self._request.fence,
                reply=result, lease_seconds=self._inbox.early.lease.total_seconds(),
            )  # fmt: skip
            if row is None:
                self.abandon()
                return False
            await connection.execute("commit")
        except DATABASE_ERRORS as error:
            self.abandon()
            if not await self._landed():
                raise Transient(f"the transaction did not commit: {error}", effect="none") from error
            return True
        self._connection = None
        self._connections.release(connection, sound=True)
        return True

    def abandon(self) -> None:
        """Rolls back by cutting the connection off; nothing happens if none is open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._connections.release(connection, sound=False)

    async def _landed(self) -> bool:
        pause = FIRST_PAUSE
        while True:
            try:
                return await self._inbox.is_recorded(self._request)
            except asyncio.CancelledError:
                raise
            except Exception:  # noqa: BLE001 - only the database knows; it comes back
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE, pause * 2)
