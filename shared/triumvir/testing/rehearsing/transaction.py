"""``ctx.transaction()`` in a rehearsal: on what the author gives it to connect to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

from triumvir.agent.calling import Outcome, Success
from triumvir.errors import ConfigurationError, Permanent, Transient
from triumvir.testing.inbox import Attempt, Inbox

Connect = Callable[[], AbstractAsyncContextManager[Any]]
"""Begins a transaction and yields what ``ctx.transaction()`` is to yield; it commits when it is left, and rolls back
if an exception is thrown into it."""


class _RolledBack(Exception):
    """Thrown into a transaction that is not to be committed."""


class Desk:
    """What the transactions of all requests share. ``problems``: what the author has to mend before rehearsing."""

    def __init__(self, inbox: Inbox[Outcome], connect: Connect | None) -> None:
        self.inbox = inbox
        self.connect = connect
        self.problems: list[ConfigurationError] = []
        self._rolling_back: set[asyncio.Task[None]] = set()

    def roll_back(self, opened: AbstractAsyncContextManager[Any]) -> None:
        """Lets it roll back, which nobody waits for: its process may be gone."""
        task = asyncio.create_task(_roll_back(opened))
        self._rolling_back.add(task)
        task.add_done_callback(self._rolling_back.discard)

    async def close(self) -> None:
        """Returns once everything is rolled back."""
        await asyncio.gather(*self._rolling_back)


class Transaction:
    """The transaction of one request. It stays open until its result is known, and commits with its record."""

    def __init__(self, desk: Desk, attempt: Attempt, owner: int) -> None:
        self._desk = desk
        self._attempt = attempt
        self._owner = owner
        self._open: AbstractAsyncContextManager[Any] | None = None

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Any]:
        """Opens it; rolled back if the block raises."""
        if self._open is not None:
            problem = "ctx.transaction() was entered twice in one call; do all writes in one block"
            raise Permanent(problem, effect="unknown")
        if self._desk.connect is None:
            problem = "an operation uses ctx.transaction(); give Rehearsal(..., connect=...) what opens one"
            self._desk.problems.append(ConfigurationError(problem))
            raise self._desk.problems[-1]
        opened = self._desk.connect()
        connection = await opened.__aenter__()
        self._open = opened
        try:
            yield connection
        except BaseException:
            self.abandon()
            raise

    async def commit(self, result: str) -> bool | None:
        """Commits what was written and the record of success. False: fenced off, rolled back. None: none is open."""
        if self._open is None:
            return None
        if not self._desk.inbox.may_commit(self._attempt):
            self.abandon()
            return False
        opened, self._open = self._open, None
        try:
            await opened.__aexit__(None, None, None)
        except Exception as error:
            raise Transient(f"the transaction did not commit: {error}", effect="none") from error
        self._desk.inbox.finish(self._attempt, self._owner, Success(result), succeeded=True)
        return True

    def abandon(self) -> None:
        """Rolls back what is open."""
        opened, self._open = self._open, None
        if opened is not None:
            self._desk.roll_back(opened)


async def _roll_back(opened: AbstractAsyncContextManager[Any]) -> None:
    error = _RolledBack("the attempt failed, or was fenced off")
    with suppress(_RolledBack):
        await opened.__aexit__(_RolledBack, error, error.__traceback__)
