"""The schema of this release under the processes of the one before it, which run on while it is deployed."""

from __future__ import annotations

from typing import Any

import aiosql
import asyncpg
from aiosql.adapters.asyncpg import AsyncPGAdapter

from tests.previous import KEPT, load_rows, migrate_as_before
from tests.servers import SCHEMA
from triumvir.store.migrate import migrate

_COLUMNS = """
    select table_name, column_name, data_type,
           is_nullable = 'YES' or column_default is not null or is_identity = 'YES' as may_be_left_out
    from information_schema.columns where table_schema = $1 and table_name <> 'schema_migrations'
"""
_ELSEWHERE = {"deposit_documents", "document_store_id", "documents_after"}
"""Statements for a database that holds documents only."""


async def _columns(url: str) -> dict[tuple[str, str], tuple[str, bool]]:
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(_COLUMNS, SCHEMA)
    finally:
        await connection.close()
    return {(row[0], row[1]): (row[2], row[3]) for row in rows}


async def test_every_column_of_the_previous_release_is_there_and_what_is_new_may_be_left_out(
    empty_database_url: str, database_url: str
) -> None:
    await migrate_as_before(empty_database_url)
    before, now = await _columns(empty_database_url), await _columns(database_url)
    assert {column: kind for column, (kind, _) in before.items()} == {
        column: now[column][0] if column in now else "gone" for column in before
    }
    old_tables = {table for table, _ in before}
    new = {column for column in now if column not in before and column[0] in old_tables}
    assert [column for column in sorted(new) if not now[column][1]] == []


async def test_every_statement_of_the_previous_release_can_be_run(connection: asyncpg.Connection) -> None:
    adapter: Any = AsyncPGAdapter()  # type: ignore[no-untyped-call]
    queries = aiosql.from_path(KEPT / "sql", lambda *_: adapter, mandatory_parameters=False)
    names = {name for name in queries.available_queries if not name.endswith("_cursor")} - _ELSEWHERE
    assert len(names) > 80
    refused = {}
    for name in sorted(names):
        sql = getattr(queries, name).sql
        if sql.count(";") > 1:
            continue  # a script, which is not prepared
        try:
            await connection.prepare(sql)
        except asyncpg.PostgresError as error:
            refused[name] = str(error)
    assert refused == {}


async def test_rows_of_the_previous_release_are_migrated_as_they_are(
    empty_database_url: str,
) -> None:
    await migrate_as_before(empty_database_url)
    await load_rows(empty_database_url)
    connection = await asyncpg.connect(empty_database_url, server_settings={"search_path": SCHEMA})
    try:
        before = await connection.fetch("select no, state, fence, held_by from orders order by no")
        await migrate(empty_database_url, SCHEMA)
        assert await connection.fetch("select no, state, fence, held_by from orders order by no") == before
        for table in ("order_documents", "workflows", "commands", "dead_letters", "inbox", "steps", "outbox"):
            assert await connection.fetchval(f"select count(*) from {table}") > 0, table
    finally:
        await connection.close()
    states = {row["state"] for row in before}
    assert states == {
        "pending", "processing", "compensating", "error", "compensation_failed",
        "processed", "compensated", "cancelled", "closed",
    }  # fmt: skip
