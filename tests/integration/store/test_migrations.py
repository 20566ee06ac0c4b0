"""Migrations: forward only, each once, whoever runs them at the same time."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from tests.servers import SCHEMA
from triumvir.errors import StoreError
from triumvir.settings import Settings
from triumvir.store.migrate import available, migrate
from triumvir.store.session import Store


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _start(url: str) -> None:
    async with Store(Settings(database_url=url, database_schema=SCHEMA), "test"):
        pass


async def test_migrating_twice_applies_each_migration_once(empty_database_url: str) -> None:
    assert [m.number for m in await migrate(empty_database_url, SCHEMA)] == [m.number for m in available()]
    assert await migrate(empty_database_url, SCHEMA) == []


async def test_migrations_started_at_once_take_turns(empty_database_url: str) -> None:
    runs = await asyncio.gather(*(migrate(empty_database_url, SCHEMA) for _ in range(4)))
    assert sorted(len(applied) for applied in runs) == [0, 0, 0, len(available())]


async def test_a_migration_that_later_ones_overtook_is_applied_after_them(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that followed the releases has 0015, and not 0009."""
    overtaken = [migration for migration in available() if migration.number != 9]
    with monkeypatch.context() as before:
        before.setattr("triumvir.store.migrate.available", lambda series: overtaken)
        assert await migrate(empty_database_url, SCHEMA) == overtaken
    with pytest.raises(StoreError, match=r"1 migration\(s\) behind"):
        await _start(empty_database_url)
    assert [migration.number for migration in await migrate(empty_database_url, SCHEMA)] == [9]
    await _start(empty_database_url)


async def test_two_schemas_of_one_database_know_nothing_of_each_other(empty_database_url: str) -> None:
    await migrate(empty_database_url, "one")
    assert len(await migrate(empty_database_url, "two")) == len(available())


async def test_a_migration_that_fails_leaves_nothing_behind(empty_database_url: str) -> None:
    await _execute(empty_database_url, f"create schema {SCHEMA}; create table {SCHEMA}.outbox (id int)")
    with pytest.raises(asyncpg.DuplicateTableError):
        await migrate(empty_database_url, SCHEMA)
    await _execute(empty_database_url, f"drop table {SCHEMA}.outbox")
    assert len(await migrate(empty_database_url, SCHEMA)) == len(available())


async def test_a_service_refuses_a_schema_that_is_behind_and_names_the_command(
    empty_database_url: str, database_url: str
) -> None:
    with pytest.raises(StoreError, match="behind; run: triumvir migrate"):
        await _start(empty_database_url)
    await _execute(database_url, f"delete from {SCHEMA}.schema_migrations")
    with pytest.raises(StoreError, match=rf"{len(available())} migration\(s\) behind"):
        await _start(database_url)


async def test_a_service_refuses_a_schema_that_is_ahead(database_url: str) -> None:
    await _execute(
        database_url, f"insert into {SCHEMA}.schema_migrations (number, name, digest) values (9999, 'x', 'x')"
    )
    for refuse in (_start, migrate):
        with pytest.raises(StoreError, match=r"ahead of this release \(migration 9999\); upgrade triumvir"):
            await refuse(database_url)


async def test_a_migration_changed_after_it_was_applied_is_refused(database_url: str) -> None:
    await _execute(database_url, f"update {SCHEMA}.schema_migrations set digest = 'other' where number = 1")
    for refuse in (_start, migrate):
        with pytest.raises(StoreError, match=r"migration 0001 .* was changed after it was applied"):
            await refuse(database_url)


async def test_a_database_that_is_away_is_told_in_words(database_url: str) -> None:
    gone = database_url + "-gone"
    for refuse in (_start, migrate):
        with pytest.raises(StoreError, match="Postgres cannot be reached"):
            await refuse(gone)
