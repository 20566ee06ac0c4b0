"""Migrations: numbered SQL files, forward only, each applied once in a transaction of its own."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

import asyncpg

from triumvir.errors import StoreError
from triumvir.store.statements import Connection

_NAME: Final = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
_LOCK: Final = 0x7472_6975_6D76_6972  # "triumvir": two migrations at once take turns


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of migrations/."""

    number: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def available() -> list[Migration]:
    """The migrations of this release, in order."""
    found = []
    for file in files("triumvir.store").joinpath("migrations").iterdir():
        match = _NAME.match(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return sorted(found, key=lambda migration: migration.number)


async def migrate(database_url: str, schema: str = "triumvir") -> list[Migration]:
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
            pending = _pending(await _applied(connection), schema)
            for migration in pending:
                await connection.execute(migration.sql)
                await connection.execute(
                    "insert into schema_migrations (number, name, digest) values ($1, $2, $3)",
                    migration.number,
                    migration.name,
                    migration.digest,
                )
            return pending
    finally:
        await connection.close(timeout=5)


async def check_schema(connection: Connection, schema: str) -> None:
    """Raises StoreError, naming the command to run, unless the schema is the one of this release."""
    exists = await connection.fetchval("select to_regclass($1) is not null", f"{schema}.schema_migrations")
    pending = _pending(await _applied(connection) if exists else {}, schema)
    if pending:
        raise StoreError(f"schema {schema!r} is {len(pending)} migration(s) behind; run: triumvir migrate")


async def _applied(connection: Connection) -> dict[int, str]:
    rows = await connection.fetch("select number, digest from schema_migrations order by number")
    return {row["number"]: row["digest"] for row in rows}


def _pending(applied: dict[int, str], schema: str) -> list[Migration]:
    known = {migration.number: migration for migration in available()}
    ahead = sorted(set(applied) - set(known))
    if ahead:
        raise StoreError(
            f"schema {schema!r} is ahead of this release (migration {ahead[-1]}); upgrade triumvir"
        )
    for number, digest in applied.items():
        if known[number].digest != digest:
            raise StoreError(f"migration {number:04} of schema {schema!r} was changed after it was applied")
    return [migration for number, migration in known.items() if number not in applied]


async def _connect(database_url: str) -> asyncpg.Connection:
    try:
        return await asyncpg.connect(database_url, timeout=10)
    except (OSError, asyncpg.PostgresError, TimeoutError, ValueError) as error:
        raise StoreError(f"Postgres cannot be reached: {error}") from None
