"""Documents without a state record: where documents have a database of their own, a process may die between the two."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from triumvir.runtime import hints, outgoing, refs
from triumvir.runtime.acceptance import create
from triumvir.runtime.batches import run_batch
from triumvir.runtime.crash import crash_point
from triumvir.runtime.outgoing import StatusFact
from triumvir.runtime.refs import StatusRef
from triumvir.runtime.relay import Relay
from triumvir.settings import Settings
from triumvir.store.acceptance import Acceptance, Desk, Key, keys
from triumvir.store.documents import OrdersDatabase
from triumvir.store.session import Session
from triumvir.store.statements import Connection, Row, statement
from triumvir.telemetry import events, metrics
from triumvir.telemetry.logs import get_logger

PAGE: Final = 500
log = get_logger(__name__)


class LoneDocuments:
    """The comparison of the orders database with the state repository, from a mark on that is kept beside the states.

    A document that grew old without a state record gets the one that its submitter did not come to create; whoever
    redelivers the submission meanwhile finds it, or makes it, once. With one database there is nothing to compare.
    """

    def __init__(
        self,
        session: Session,
        relay: Relay,
        documents: OrdersDatabase | None,
        settings: Settings,
        instance: UUID,
    ) -> None:
        self._session = session
        self._relay = relay
        self._documents = documents
        self._settings = settings
        self._desk = Desk(instance, f"supervisor:{str(instance)[:8]}", settings.max_open_orders)

    async def step(self) -> bool:
        """Compares one page; whether there may be more. Raises DocumentsAway."""
        if self._documents is None:
            return False
        async with self._session.connection() as connection:
            mark = await statement("documents_elsewhere").row(connection)
            room = self._desk.most_open - await statement("count_admitted").value(connection)
        if mark is None or room <= 0:  # a document is as good as admitted, and waits like others that are
            return False
        most = min(PAGE, room)
        since = mark["checked_at"], mark["checked_client"], mark["checked_order_id"]
        page = await self._documents.after(since, self._settings.lone_document_age, most)
        if not page:
            return False
        await self._create(await self._lone(page))
        return await self._advance(mark, page[-1]) and len(page) == most

    async def _lone(self, page: Sequence[Row]) -> list[Row]:
        """Those that no state record belongs to."""
        async with self._session.connection() as connection:
            there = await statement("order_digests").rows(connection, **keys(map(_key, page)))
        known = {(row["client"], row["order_id"]): row["digest"] for row in there}
        for row in page:
            if known.get(_key(row), row["digest"]) != row["digest"]:
                log.error(
                    events.DOCUMENT_ODD, order="/".join(_key(row)), problem="it is not that of its order"
                )
        return sorted((row for row in page if _key(row) not in known), key=_key)

    async def _create(self, lone: Sequence[Row]) -> None:
        makeable = [row for row in lone if row["workflow"] is not None]
        for row in lone:
            if row["workflow"] is None:
                log.error(
                    events.DOCUMENT_ODD, order="/".join(_key(row)), problem="nothing says what order it is"
                )
        if makeable:
            await run_batch("lone documents", makeable, self._accept, self._set_aside)

    async def _accept(self, rows: Sequence[Row]) -> None:
        async with self._relay.transaction(self._session) as ride:
            created = await create(ride.connection, [_acceptance(row) for row in rows], self._desk)
            outbox_id = await self._to_outbox(ride.connection, list(created.values()))
            crash_point("supervisor.check.before_commit")
        crash_point("supervisor.check.after_commit")
        for fact in created.values():
            metrics.ORDERS_ACCEPTED.add(1, fact.workflow)
            log.warning(events.ACCEPTANCE_COMPLETED, order=fact.key, trace=(fact.trace or "")[3:35])
        if created:
            await self._relay.send([hints.wake()], None)
            await self._relay.send([outgoing.status(fact, None) for fact in created.values()], outbox_id)

    async def _to_outbox(self, connection: Connection, created: Sequence[StatusFact]) -> int | None:
        if not created:
            return None
        seconds = self._settings.outbox_lease / timedelta(seconds=1)
        written = refs.write(StatusRef(fact.no, fact.n) for fact in created)
        outbox_id: int = await statement("add_to_outbox").value(
            connection, lease_seconds=seconds, refs=written, confirmed=[]
        )
        return outbox_id

    async def _set_aside(self, row: Row, error: Exception) -> None:
        """One that the state repository refuses must not keep the others from their orders."""
        log.error(events.DOCUMENT_ODD, order="/".join(_key(row)), problem=f"{type(error).__name__}: {error}")

    async def _advance(self, before: Row, last: Row) -> bool:
        """Moves the mark; False if another supervisor did meanwhile."""
        async with self._session.transaction() as connection:
            mine = await statement("lock_document_check").row(connection, **_mark(before, "checked_"))
            if mine is not None:
                await statement("advance_document_check").rows(connection, **_mark(last))
        return mine is not None


def _key(row: Row) -> Key:
    return row["client"], row["order_id"]


def _mark(row: Row, prefix: str = "") -> dict[str, Any]:
    return {name: row[f"{prefix}{name}"] for name in ("at", "client", "order_id")}


def _acceptance(row: Row) -> Acceptance:
    return Acceptance(**{name: value for name, value in row.items() if name != "at"})
