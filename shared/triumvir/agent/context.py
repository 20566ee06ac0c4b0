"""What an operation knows about the request it serves."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any, Protocol

from triumvir.contracts.messages import StepRequest
from triumvir.contracts.names import order_key
from triumvir.errors import Permanent
from triumvir.store.business import BusinessConnection


class Transactions(Protocol):
    """The transaction in which an operation's effect and its result are committed together."""

    def begin(self) -> AbstractAsyncContextManager[BusinessConnection]:
        """Opens it."""

    async def commit(self, result: str) -> bool | None:
        """Records the result and commits. False: fenced off and rolled back; None: none was open."""

    def abandon(self) -> None:
        """Rolls back what is open."""


class Context:
    """One request, as its operation sees it. The first argument of every operation and undo."""

    def __init__(
        self,
        request: StepRequest,
        seconds_left: float,
        transactions: Transactions | None = None,
        traceparent: str | None = None,
        report: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = request.client
        """The name of the client that submitted the order."""
        self.order_id = request.order_id
        """The id that the client chose."""
        self.order_key = order_key(request.client, request.order_id)
        """``client/order_id``: unique over all clients."""
        self.workflow = request.workflow
        """The name of the order's workflow."""
        self.version = request.version
        """The version that the order is pinned to."""
        self.step = request.step
        """The name of the step; in an undo, of the step that is undone."""
        self.attempt = request.attempt
        """Counts the attempts of the order, from 1."""
        self.idempotency_key = request.idempotency_key
        """Text, the same for every call of this step and direction, whatever died between: hand it to the remote
        service."""
        self.fence = request.fence
        """A whole number below 2^63 that rises with every attempt: hand it to a target that can refuse a lower one."""
        self.traceparent = traceparent
        """The order's trace, for the W3C header of that name of outbound calls; None when there is none."""
        self.call = 0
        """Counts the calls of this request, from 1."""
        self._results = request.results
        self._clock = clock
        self._deadline = clock() + seconds_left
        self._transactions = transactions
        self._report = report

    @property
    def results(self) -> Mapping[str, Any]:
        """What earlier steps returned, by step name: JSON values."""
        return {name: result.value for name, result in self._results.items()}

    @property
    def time_left(self) -> timedelta:
        """Until the order stops waiting; never below zero. No outbound call should be given longer."""
        return timedelta(seconds=max(0.0, self._deadline - self._clock()))

    def progress(self, text: str) -> None:
        """Says how far the operation is, in words: for the order's history, and for clients that asked for progress.

        As often as you like, also from plain functions: it does not wait, and the latest text leaves once a second at
        most, cut to 500 characters. No deadline and no retry is moved by it.
        """
        if self._report is not None:
            self._report(text)

    async def commit(self, result: str) -> bool | None:
        """For the runtime: commits what the operation left open, with its result."""
        return None if self._transactions is None else await self._transactions.commit(result)

    def abandon(self) -> None:
        """For the runtime: rolls back what the operation left open."""
        if self._transactions is not None:
            self._transactions.abandon()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[BusinessConnection]:
        """A transaction of the state repository's database: what is written in it is committed together with the
        step's result when the operation returns, and not at all if it raises or its attempt was fenced off.

        That makes the effect exactly-once. Gives the part of an asyncpg connection that runs statements. Once per
        call, asynchronous operations only: anything else is a mistake that no repetition mends, and raises
        :class:`~triumvir.errors.Permanent`, in doubt.
        """
        if self._transactions is None:
            problem = "ctx.transaction() is for asynchronous operations of a running agent"
            raise Permanent(problem, effect="unknown")
        async with self._transactions.begin() as connection:
            yield connection
