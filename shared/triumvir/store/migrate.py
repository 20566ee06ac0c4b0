"""Migrations: numbered SQL files, forward only, each applied once in a transaction of its own."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, Literal

import asyncpg

from triumvir.errors import StoreError
from triumvir.store.statements import Connection

_NAME: Final = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
Series = Literal["migrations", "document_migrations"]
"""The folder of one schema's files: the state repository's, or that of a database for documents only."""

_LOCK: Final = 0x7472_6975_6D76_6972  # "triumvir": two migrations at once take turns


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of migrations/ or document_migrations/."""

    number: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def available(series: Series = "migrations") -> list[Migration]:
    """The migrations of this release, in order."""
    found = []
    for file in files("triumvir.store").joinpath(series).iterdir():
        match = _NAME.match(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return sorted(found, key=lambda migration: migration.number)


@dataclass(frozen=True, slots=True)
class SchemaState:
    """A schema beside the migrations of this release. With no pending, ahead or changed ones they agree."""

    schema: str
    pending: tuple[Migration, ...]
    ahead: tuple[int, ...]
    """Numbers that only a later release knows."""
    changed: tuple[int, ...]
    """Numbers whose file is not the one that was applied."""

    @property
    def problem(self) -> str | None:
        """What does not agree, in words that name what to do; None if all does."""
        if self.ahead:
            last = self.ahead[-1]
            return f"schema {self.schema!r} is ahead of this release (migration {last}); upgrade triumvir"
        if self.changed:
            first = self.changed[0]
            return f"migration {first:04} of schema {self.schema!r} was changed after it was applied"
        if self.pending:
            count = len(self.pending)
            return f"schema {self.schema!r} is {count} migration(s) behind; run: triumvir migrate"
        return None


async def migrate(
    database_url: str, schema: str = "triumvir", series: Series = "migrations"
) -> list[Migration]:
    """Brings ``schema`` to this release and returns what was applied; nothing if it was there already.

    Raises StoreError if the database cannot be reached, is ahead, or holds a migration that was changed since.
    """
    connection = await _connect(database_url)
    try:
        async with connection.transaction():
            await connection.execute("select pg_advisory_xact_lock($1)", _LOCK)
            await connection.execute(f"create schema if not exists {schema}")
            await connection.execute(f"set local search_path to {schema}")
            await connection.execute(
                "create table if not exists schema_migrations ("
                "number integer primary key, name text not null, digest text not null,"
                " at timestamptz not null default clock_timestamp())"
            )
            state = _compared(await _applied(connection), schema, series)
            if state.ahead or state.changed:
                raise StoreError(state.problem)
            for migration in state.pending:
                await connection.execute(migration.sql)
                await connection.execute(
                    "insert into schema_migrations (number, name, digest) values ($1, $2, $3)",
                    migration.number,
                    migration.name,
                    migration.digest,
                )
            return list(state.pending)
    finally:
        await connection.close(timeout=5)


async def check_schema(connection: Connection, schema: str, series: Series = "migrations") -> None:
    """Raises StoreError, naming the command to run, unless the schema is the one of this release."""
    state = await read_schema(connection, schema, series)
    if state.problem is not None:
        raise StoreError(state.problem)


async def read_schema(connection: Connection, schema: str, series: Series = "migrations") -> SchemaState:
    """How the schema compares with this release; one that does not exist lacks every migration."""
    exists = await connection.fetchval("select to_regclass($1) is not null", f"{schema}.schema_migrations")
    return _compared(await _applied(connection) if exists else {}, schema, series)


async def _applied(connection: Connection) -> dict[int, str]:
    rows = await connection.fetch("select number, digest from schema_migrations order by number")
    return {row["number"]: row["digest"] for row in rows}


def _compared(applied: dict[int, str], schema: str, series: Series) -> SchemaState:
    known = {migration.number: migration for migration in available(series)}
    return SchemaState(
        schema,
        pending=tuple(migration for number, migration in known.items() if number not in applied),
        ahead=tuple(sorted(set(applied) - set(known))),
        changed=tuple(
            number for number, digest in applied.items() if number in known and known[number].digest != digest
        ),
    )


async def _connect(database_url: str) -> asyncpg.Connection:
    try:
        return await asyncpg.connect(database_url, timeout=10)
    except (OSError, asyncpg.PostgresError, TimeoutError, ValueError) as error:
        raise StoreError(f"Postgres cannot be reached: {error}") from None
