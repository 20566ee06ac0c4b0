"""What ``triumvir doctor`` finds in Postgres: the server, rights, schema, clock, outbox. Postgres lets it only read."""

from __future__ import annotations

from datetime import UTC, datetime

from triumvir.cli.findings import Finding, clock, ill, well
from triumvir.cli.service_findings import Needs, look_at_services
from triumvir.errors import StoreError, StoreRefused
from triumvir.settings import Settings
from triumvir.store import operators
from triumvir.store.migrate import read_schema
from triumvir.store.session import OLDEST_SERVER
from triumvir.store.statements import Connection, statement


async def look_at_database(settings: Settings, needs: Needs) -> list[Finding]:
    """Every finding; what the applied workflows need is added to ``needs``."""
    findings: list[Finding] = []
    try:
        async with operators.look(settings) as connection:
            findings.append(_server(connection))
            await _inside(connection, settings, needs, findings)
    except StoreRefused as error:
        fix = "correct user, password or database in TRIUMVIR_DATABASE_URL, or make there what is missing"
        findings.append(ill("database", str(error), fix))
    except StoreError as error:
        fix = "check TRIUMVIR_DATABASE_URL, and that Postgres runs there"
        findings.append(ill("database", str(error), fix))
    return findings


def _server(connection: Connection) -> Finding:
    version = connection.get_settings().server_version
    if connection.get_server_version().major < OLDEST_SERVER:
        return ill(
            "database",
            f"Postgres {version} is too old",
            f"upgrade the server to Postgres {OLDEST_SERVER} or newer; services refuse to start on this one",
        )
    return well("database", f"Postgres {version}")


async def _inside(connection: Connection, settings: Settings, needs: Needs, findings: list[Finding]) -> None:
    """Adds to ``findings`` as it goes, so that a fault half-way keeps them; ends where the rest cannot be read."""
    findings.append(await _clock(connection))
    for look in (_rights, _schema):
        findings.append(await look(connection, settings.database_schema))
        if findings[-1].problem is not None:
            return
    findings += await look_at_services(connection, needs)
    findings.append(await _backlog(connection))


async def _clock(connection: Connection) -> Finding:
    before = datetime.now(UTC)
    there: datetime = await statement("clock").value(connection)
    after = datetime.now(UTC)
    return clock("database", there, there, before, after, "deadlines go by the database's")


async def _rights(connection: Connection, schema: str) -> Finding:
    """What services do, they must be allowed to; a schema that is not there yet forbids nothing."""
    user = await statement("current_user").value(connection)
    usable = await statement("schema_is_usable").value(connection, schema=schema)
    if usable is None:
        return well("database permissions", f"user {user!r} may connect; there is no schema {schema!r} yet")
    if not usable:
        return ill(
            "database permissions",
            f"user {user!r} may not look into schema {schema!r}",
            f"as its owner: {_grant(schema, user)}",
        )
    lacking = await statement("lacking_privileges").rows(connection, schema=schema)
    if lacking:
        named = "; ".join(f"{row['verb']} {_some(row['tables'])}" for row in lacking)
        return ill(
            "database permissions",
            f"user {user!r} may not do everything that services do: {named}",
            f"as the tables' owner: {_grant(schema, user)}",
        )
    return well("database permissions", f"user {user!r} may do what services do")


def _grant(schema: str, user: str) -> str:
    return (
        f'grant usage on schema {schema} to "{user}"; '
        f'grant select, insert, update, delete on all tables in schema {schema} to "{user}"'
    )


def _some(tables: list[str]) -> str:
    shown = ", ".join(tables[:3])
    return shown if len(tables) <= 3 else f"{shown} and {len(tables) - 3} more tables"


async def _schema(connection: Connection, schema: str) -> Finding:
    state = await read_schema(connection, schema)
    if state.problem is None:
        return well("schema", "is the one of this release")
    if state.ahead:
        problem = f"schema {schema!r} was made by a later release (migration {state.ahead[-1]})"
        return ill("schema", problem, "upgrade triumvir on this machine")
    if state.changed:
        fix = (
            "use the release that made it, or restore that migration's file; never edit one that was applied"
        )
        return ill("schema", state.problem, fix)
    names = ", ".join(f"{migration.number:04}_{migration.name}" for migration in state.pending)
    return ill("schema", f"schema {schema!r} lacks {names}", "triumvir migrate")


async def _backlog(connection: Connection) -> Finding:
    row = await statement("ageing").row(connection)
    if row is None or not row["unsent"]:
        return well("outbox", "nothing is overdue")
    return ill(
        "outbox",
        f"{row['unsent']} rows wait to be sent, the oldest is overdue for {row['seconds']:.0f} s",
        "see that a scheduler runs, and that the broker takes messages",
    )
