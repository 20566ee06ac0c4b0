"""The orders database: documents in a database of their own, which has no commit in common with the state records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Self
from uuid import UUID

import asyncpg

from triumvir.errors import DocumentsAway, StoreError
from triumvir.settings import Settings
from triumvir.store.acceptance import Acceptance, Key, columns, keys
from triumvir.store.faults import DATABASE_ERRORS, Fault, fault
from triumvir.store.migrate import check_schema, migrate
from triumvir.store.session import CONNECT_SECONDS, Session, connect
from triumvir.store.statements import Connection, Row, statement
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

AWAY: Final = "orders-database"
"""The reason of a hold while the orders database cannot be reached."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Document:
    """A payload as received, and the digest that its order must have."""

    payload: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Deposit:
    """The digests of what is there now, and the keys of what was written just now."""

    digests: dict[Key, bytes]
    new: frozenset[Key]


class OrdersDatabase:
    """Documents by key, on one connection that is opened when needed. Every method raises DocumentsAway if it cannot be
    reached, and what Postgres says of a value that it refuses.
    """

    def __init__(self, settings: Settings, service: str, paired: UUID) -> None:
        self._session = Session(settings, partial(_connect, settings, f"{service} documents", paired))
        self._probe = Session(settings, partial(_connect, settings, f"{service} documents probe", paired))

    async def __aenter__(self) -> Self:
        """Refuses a wrong schema, or the database of another system; one that is away is waited for later."""
        try:
            async with self._probe.connection():
                pass
        except DocumentsAway as error:
            log.warning(events.DATABASE_LOST, database="orders", error=str(error))
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(self._session.close(), self._probe.close())

    async def deposit(self, documents: Sequence[tuple[Acceptance, str]], wanted: Collection[Key]) -> Deposit:
        """Writes the documents (with their payload texts) that are missing; the digests of all that are there of
        ``wanted`` then. Repeatable: what exists stays as it is.
        """
        new: list[Row] = []
        ordered = sorted(documents, key=lambda document: document[0].key)
        async with self._using(self._session) as connection:
            if ordered:
                new = await statement("deposit_documents").rows(
                    connection,
                    **columns([acceptance for acceptance, _ in ordered]),
                    payloads=[payload for _, payload in ordered],
                )
            rows = await statement("read_digests").rows(connection, **keys(wanted))
        digests = {(row["client"], row["order_id"]): row["digest"] for row in rows}
        return Deposit(digests, frozenset((row["client"], row["order_id"]) for row in new))

    async def read(self, wanted: Collection[Key]) -> dict[Key, Document]:
        """The documents that exist under these keys."""
        async with self._using(self._session) as connection:
            rows = await statement("fetch_documents").rows(connection, **keys(wanted))
        return {(row["client"], row["order_id"]): Document(row["payload"], row["digest"]) for row in rows}

    async def empty(self, which: Iterable[Key]) -> None:
        """Nothing stays of the payloads under these keys; that they were there does."""
        async with self._using(self._session) as connection:
            await statement("empty_documents").rows(connection, **keys(which))

    async def delete(self, which: Iterable[Key]) -> None:
        """The documents under these keys are gone."""
        async with self._using(self._session) as connection:
            await statement("delete_documents").rows(connection, **keys(which))

    async def after(self, mark: tuple[datetime, str, str], age: timedelta, most: int) -> list[Row]:
        """A page of documents beyond ``mark`` and older than ``age``, oldest first."""
        async with self._using(self._session) as connection:
            return await statement("documents_after").rows(
                connection,
                after=mark[0],
                after_client=mark[1],
                after_order_id=mark[2],
                age_seconds=age / timedelta(seconds=1),
                most=most,
            )

    async def ping(self) -> None:
        """Returns if it answers."""
        async with self._using(self._probe) as connection, asyncio.timeout(CONNECT_SECONDS):
            await connection.fetchval("select 1")

    async def ready(self) -> str | None:
        """What is wrong with it, or None; for /readyz."""
        try:
            await self.ping()
        except DocumentsAway as error:
            return str(error)
        return None

    @asynccontextmanager
    async def _using(self, session: Session) -> AsyncIterator[Connection]:
        try:
            async with session.connection() as connection:
                yield connection
        except DocumentsAway:
            raise
        except (StoreError, *DATABASE_ERRORS) as error:
            if fault(error) is not Fault.OTHER:
                raise
            raise DocumentsAway(f"orders database: {str(error) or type(error).__name__}") from error


async def open_documents(settings: Settings, service: str, state: Session) -> OrdersDatabase | None:
    """The orders database to enter, or None where the documents are with the state records, as ``state`` knows.

    Raises StoreError if the settings say otherwise than the state repository.
    """
    async with state.connection() as connection:
        row = await statement("documents_elsewhere").row(connection)
    if settings.orders_dsn is None:
        if row is not None:
            raise StoreError("this system's documents are in another database; set TRIUMVIR_ORDERS_DSN")
        return None
    if row is None:
        raise StoreError(
            "the state repository knows of no orders database; run: triumvir migrate (with TRIUMVIR_ORDERS_DSN)"
        )
    return OrdersDatabase(settings, service, row["id"])


async def find_document(settings: Settings, state: Connection, key: Key) -> Document | None:
    """An operator's look at one document, in whichever database it is; None if there is none, or
    it was purged.

    Raises StoreError if that database cannot be reached, or is not named.
    """
    elsewhere = await statement("documents_elsewhere").row(state)
    if elsewhere is None:
        rows = await statement("fetch_documents").rows(state, **keys([key]))
    elif settings.orders_dsn is None:
        raise StoreError("this system's documents are in another database; set TRIUMVIR_ORDERS_DSN")
    else:
        connection = await _connect(settings, "operator documents", elsewhere["id"])
        try:
            rows = await statement("fetch_documents").rows(connection, **keys([key]))
        finally:
            connection.terminate()
    return Document(rows[0]["payload"], rows[0]["digest"]) if rows and rows[0]["payload"] else None


async def migrate_documents(settings: Settings) -> list[str]:
    """Brings the orders database to this release and pairs the state repository with it; what was done, in words.

    Raises StoreError if the two cannot be a pair.
    """
    if settings.orders_dsn is None:
        return []
    await _refuse_states(settings)
    applied = await migrate(settings.orders_dsn, settings.database_schema, "document_migrations")
    done = [f"applied {each.number:04} {each.name} (orders database)" for each in applied]
    there = await connect(settings, "migrate", settings.orders_dsn)
    here = await connect(settings, "migrate")
    try:
        store_id = await statement("document_store_id").value(there)
        before = await statement("documents_elsewhere").row(here)
        await statement("pair_documents").rows(here, id=store_id)
        await _refuse_another(here, store_id)
    finally:
        await asyncio.gather(here.close(timeout=5), there.close(timeout=5))
    return done if before is not None else [*done, "paired the state repository with the orders database"]


async def _refuse_states(settings: Settings) -> None:
    try:
        connection = await connect(settings, "migrate", settings.orders_dsn)
    except StoreError as error:
        raise StoreError(f"orders database (TRIUMVIR_ORDERS_DSN): {error}") from None
    try:
        if await connection.fetchval(
            "select to_regclass($1) is not null", f"{settings.database_schema}.orders"
        ):
            raise StoreError(
                "TRIUMVIR_ORDERS_DSN names a state repository; name another database, or leave it unset to keep"
                " the documents with the states"
            )
    finally:
        await connection.close(timeout=5)


async def _refuse_another(state: Connection, store_id: UUID | None) -> None:
    row = await statement("documents_elsewhere").row(state)
    if row is None or row["id"] != store_id:
        raise StoreError("TRIUMVIR_ORDERS_DSN names the orders database of another system; correct it")


async def _connect(settings: Settings, name: str, paired: UUID) -> asyncpg.Connection:
    """Raises DocumentsAway if it cannot be reached, StoreError if it is not the right one."""
    try:
        connection = await connect(settings, name, settings.orders_dsn)
    except StoreError as error:
        raise DocumentsAway(f"orders database: {error}") from None
    try:
        await check_schema(connection, settings.database_schema, "document_migrations")
        if await statement("document_store_id").value(connection) != paired:
            raise StoreError("TRIUMVIR_ORDERS_DSN names the orders database of another system; correct it")
    except BaseException:
        connection.terminate()
        raise
    return connection
