"""Ended orders that were kept for long enough: emptied, and forgotten when their keys need not be known any more."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from triumvir.runtime.crash import crash_point
from triumvir.settings import Settings
from triumvir.store.acceptance import keys
from triumvir.store.documents import OrdersDatabase
from triumvir.store.session import Session
from triumvir.store.statements import Connection, Row, statement
from triumvir.telemetry import events, metrics
from triumvir.telemetry.logs import get_logger
from triumvir_supervisor.pace import Pace

MOST: Final = 100
"""Orders in one transaction."""
BREATH_SECONDS: Final = 0.5
_SAVED_SECONDS: Final = 10
_SECONDS_PER_DAY: Final = 86_400
log = get_logger(__name__)


class Purge:
    """Small transactions, each of orders that no other supervisor is at, at a rate that all supervisors share."""

    def __init__(
        self, session: Session, settings: Settings, who: str, documents: OrdersDatabase | None
    ) -> None:
        """``who`` stands in the history; ``documents``: where payloads are, if not with the state records."""
        self._session = session
        self._documents = documents
        self._who = who
        self._default_days = settings.retention_days
        self._known_seconds = float(settings.dedupe_days * _SECONDS_PER_DAY)
        self._pace = Pace(settings.purge_rate, max(MOST, round(settings.purge_rate * _SAVED_SECONDS)))

    async def step(self) -> bool:
        """As much as this process may now; what is left goes with the next steps. Raises DocumentsAway."""
        await self._work()
        return False

    async def all(self) -> bool:
        """All there is, at the pace of all supervisors: nothing is left. Raises DocumentsAway."""
        more = await self._work()
        while more:
            await asyncio.sleep(BREATH_SECONDS)
            more = await self._work()
        return False

    async def _work(self) -> bool:
        """Whether it stopped because it may do no more for the moment."""
        left = await self._allowance()
        left -= await self._repeat(self._purge, left, events.ORDERS_PURGED)
        await self._empty_documents()
        left -= await self._repeat(self._forget, left, events.ORDERS_FORGOTTEN)
        return left <= 0

    async def _repeat(self, batch: Callable[[int], Awaitable[int]], most: int, event: str) -> int:
        """Batch after batch; of how many orders."""
        began, done = time.monotonic(), 0
        while done < most and (count := await batch(min(MOST, most - done))):
            done += count
            self._pace.spend(count)
        if done:
            log.info(event, orders=done, seconds=round(time.monotonic() - began, 3))
        return done

    async def _allowance(self) -> int:
        async with self._session.connection() as connection:
            sharers: int = await statement("count_supervisors").value(connection)
        return self._pace.allowance(max(1, sharers))

    async def _purge(self, most: int) -> int:
        """One batch. What others are at meanwhile is left to them."""
        async with self._session.transaction() as connection:
            due = await statement("purgeable_orders").rows(
                connection, default_days=self._default_days, most=most
            )
            rows = await statement("lock_purgeable").rows(
                connection, nos=[row["no"] for row in due], ended_at=[row["ended_at"] for row in due]
            )
            if rows:
                await statement("purge_orders").rows(
                    connection, nos=_nos(rows), who=self._who, elsewhere=self._documents is not None
                )
            crash_point("supervisor.purge.before_commit")
        crash_point("supervisor.purge.after_commit")
        for workflow, count in Counter(row["workflow"] for row in rows).items():
            metrics.ORDERS_PURGED.add(count, workflow)
        return len(rows)

    async def _empty_documents(self) -> None:
        """Of another database; their orders are empty already and need no payload, whatever becomes of this."""
        documents = self._documents
        if documents is None:
            return
        while True:
            async with self._session.transaction() as connection:
                rows = await statement("lock_documents_left").rows(connection, most=MOST)
                if rows:
                    await documents.empty(map(_key, rows))
                    crash_point("supervisor.purge.documents")
                    await statement("documents_emptied").rows(connection, nos=_nos(rows))
            if len(rows) < MOST:
                return

    async def _forget(self, most: int) -> int:
        """One batch: the documents, then the orders, under a lock that a submitter of such a key waits for."""
        async with self._session.transaction() as connection:
            rows = await statement("lock_forgettable").rows(
                connection, seconds=self._known_seconds, most=most
            )
            if rows:
                await self._delete_documents(connection, rows)
                await statement("forget_orders").rows(connection, nos=_nos(rows))
        metrics.ORDERS_FORGOTTEN.add(len(rows))
        return len(rows)

    async def _delete_documents(self, connection: Connection, rows: Sequence[Row]) -> None:
        if self._documents is not None:
            await self._documents.delete(map(_key, rows))
        else:
            await statement("delete_documents").rows(connection, **keys(map(_key, rows)))


def _nos(rows: Sequence[Row]) -> list[int]:
    return [row["no"] for row in rows]


def _key(row: Row) -> tuple[str, str]:
    return row["client"], row["order_id"]
