"""A database for documents alone: who may use it, what is written there how often, what is found again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from tests.integration.store.rows import make_orders
from tests.servers import SCHEMA, ServerSet
from triumvir.errors import DocumentsAway, StoreError
from triumvir.lifecycle import OrderRecord
from triumvir.runtime.payloads import Payloads
from triumvir.settings import Settings
from triumvir.store.acceptance import Acceptance
from triumvir.store.documents import Deposit, OrdersDatabase, migrate_documents, open_documents
from triumvir.store.session import Session
from triumvir.store.statements import statement

EPOCH = (datetime(1970, 1, 1, tzinfo=UTC), "", "")
OLD, YOUNG = timedelta(0), timedelta(hours=1)
Both = tuple[Settings, asyncpg.Connection, asyncpg.Connection]


@pytest.fixture
async def both(
    settings: Settings, connection: asyncpg.Connection, server_set: ServerSet
) -> AsyncIterator[Both]:
    """Settings for two databases, with a connection to each: states, documents."""
    with server_set.database(migrated=False) as url:
        paired = settings.model_copy(update={"orders_dsn": url})
        await migrate_documents(paired)
        there = await asyncpg.connect(url, server_settings={"search_path": SCHEMA})
        yield paired, connection, there
        await there.close()


@pytest.fixture
async def documents(both: Both) -> AsyncIterator[OrdersDatabase]:
    async with await opened(both[0]) as documents:
        yield documents


async def opened(settings: Settings) -> OrdersDatabase:
    session = Session(settings, "test")
    try:
        found = await open_documents(settings, "test", session)
    finally:
        await session.close()
    assert found is not None
    return found


async def start(settings: Settings) -> None:
    async with await opened(settings):
        pass


def acceptance(order_id: str, **more: Any) -> Acceptance:
    values = {
        "client": "shop", "order_id": order_id, "digest": order_id.encode().ljust(32), "workflow": "trio",
        "version": 1, "priority": 0, "not_before": None, "progress": False, "status_queue": "status.shop",
        "trace": None,
    }  # fmt: skip
    return Acceptance(**{**values, **more})


async def test_a_service_without_the_setting_refuses_a_system_whose_documents_are_elsewhere(
    both: Both,
) -> None:
    with pytest.raises(StoreError, match="set TRIUMVIR_ORDERS_DSN"):
        await start(both[0].model_copy(update={"orders_dsn": None}))


async def test_a_service_with_the_setting_refuses_a_state_repository_that_was_not_paired(both: Both) -> None:
    await both[1].execute("delete from documents_elsewhere")
    with pytest.raises(StoreError, match="run: triumvir migrate"):
        await start(both[0])


async def test_each_schema_is_checked_on_its_own(both: Both) -> None:
    settings, _, there = both
    await there.execute("insert into schema_migrations (number, name, digest) values (9999, 'x', 'x')")
    with pytest.raises(StoreError, match=r"ahead of this release \(migration 9999\)"):
        await start(settings)
    await there.execute("delete from schema_migrations")
    with pytest.raises(StoreError, match="behind; run: triumvir migrate"):
        await start(settings)


async def test_the_orders_database_of_another_system_is_refused(both: Both) -> None:
    settings, state, _ = both
    await state.execute("update documents_elsewhere set id = gen_random_uuid()")
    for refuse in (start, migrate_documents):
        with pytest.raises(StoreError, match="orders database of another system"):
            await refuse(settings)


async def test_a_state_repository_is_no_orders_database(settings: Settings) -> None:
    with pytest.raises(StoreError, match="names a state repository"):
        await migrate_documents(settings.model_copy(update={"orders_dsn": settings.database_url}))


async def test_migrating_again_changes_nothing(both: Both) -> None:
    settings, state, _ = both
    paired = await state.fetchrow("select * from documents_elsewhere")
    assert await migrate_documents(settings) == []
    assert await state.fetchrow("select * from documents_elsewhere") == paired


async def test_one_that_is_away_is_waited_for_and_checked_when_it_comes(both: Both) -> None:
    """It does not keep a service from starting; every use says that it is away."""
    settings, _, _ = both
    gone = settings.model_copy(update={"orders_dsn": f"{settings.orders_dsn}-gone"})
    async with await opened(gone) as documents:
        assert "cannot be reached" in (await documents.ready() or "")
        with pytest.raises(DocumentsAway):
            await documents.read([("shop", "1")])
        with pytest.raises(DocumentsAway):
            await documents.deposit([(acceptance("1"), "{}")], [("shop", "1")])


async def test_the_first_document_stays_whatever_comes_after_it(documents: OrdersDatabase) -> None:
    first, other = acceptance("1"), acceptance("1", digest=b"other".ljust(32), priority=7)
    there = {first.key: first.digest}
    assert await documents.deposit([(first, '{"a":1}')], [first.key]) == Deposit(there, frozenset(there))
    for again in (first, other):
        assert await documents.deposit([(again, '{"a":2}')], [again.key]) == Deposit(there, frozenset())
    found = await documents.read([first.key, ("shop", "none")])
    assert {key: (each.payload, each.digest) for key, each in found.items()} == {
        first.key: ('{"a":1}', first.digest)
    }


async def test_what_postgres_refuses_is_no_outage(documents: OrdersDatabase) -> None:
    bad = acceptance("1", trace="a\x00b")
    with pytest.raises(asyncpg.DataError):
        await documents.deposit([(bad, "{}")], [bad.key])
    assert await documents.ready() is None


async def test_documents_are_paged_by_age_from_a_mark_on(documents: OrdersDatabase) -> None:
    for order_id in "123":
        each = acceptance(order_id, priority=int(order_id))
        await documents.deposit([(each, "{}")], [each.key])
    assert await documents.after(EPOCH, YOUNG, 10) == []
    first, second = await documents.after(EPOCH, OLD, 2)
    assert (first["order_id"], second["order_id"]) == ("1", "2")
    mark = second["at"], second["client"], second["order_id"]
    assert [(row["order_id"], row["priority"]) for row in await documents.after(mark, OLD, 2)] == [("3", 3)]


async def test_a_page_is_found_by_the_index_whatever_else_there_is(both: Both) -> None:
    await both[2].execute(
        "insert into order_documents (client, order_id, payload, digest)"
        " select 'shop', n::text, '{}', sha256(n::text::bytea) from generate_series(1, 20000) n"
    )
    await both[2].execute("analyze order_documents")
    sql = statement("documents_after").sql
    for parameter, value in (("$1", "'epoch'"), ("$2", "''"), ("$3", "''"), ("$4", "300"), ("$5", "500")):
        sql = sql.replace(parameter, value)
    plan = "\n".join(row[0] for row in await both[2].fetch(f"explain {sql}"))
    assert "Index Scan using order_documents_at" in plan, plan


async def test_payloads_are_fetched_before_they_are_asked_for(both: Both, documents: OrdersDatabase) -> None:
    nos = await make_orders(both[1], ["here", "lost", "other"], client="shop")
    digests = [row["digest"] for row in await both[1].fetch("select digest from orders order by no")]
    await documents.deposit(
        [(acceptance("here", digest=digests[0]), '{"a":1}'), (acceptance("other"), '{"b":1}')], []
    )
    payloads = Payloads(documents)
    records = [
        OrderRecord(no, "shop", order_id, "trio", 1)
        for no, order_id in zip(nos, ("here", "lost", "other"), strict=True)
    ]
    assert await payloads.of(both[1], records) == {}
    assert payloads.unread(records, []) == set(nos) == set(payloads.to_fetch(nos))
    await payloads.fetch(both[1], nos)
    assert await payloads.of(both[1], records) == {nos[0]: '{"a":1}'}
    assert [payloads.is_absent(no) for no in nos] == [False, True, True]
    assert payloads.to_fetch(nos) == nos[1:], "what was told as absent is looked for again"


async def test_while_it_is_away_nothing_is_fetched_and_everything_is_withheld(both: Both) -> None:
    settings, state, _ = both
    gone = OrdersDatabase(
        settings.model_copy(update={"orders_dsn": f"{settings.orders_dsn}-gone"}), "test", uuid4()
    )
    (no,) = await make_orders(state, ["one"])
    payloads = Payloads(gone)
    await payloads.fetch(state, [no])
    assert payloads.away
    assert payloads.to_fetch([no]) == []
    assert not payloads.is_absent(no), "nobody knows"
