"""What ``triumvir doctor`` finds in Postgres: the server, rights, schema, clock, outbox. Postgres lets it only read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from triumvir.cli.documents_findings import compared, left_behind
from triumvir.cli.findings import Finding, clock, ill, well
from triumvir.cli.service_findings import Needs, look_at_services
from triumvir.errors import StoreError, StoreRefused
from triumvir.settings import Settings
from triumvir.store import operators
from triumvir.store.migrate import Series, read_schema
from triumvir.store.session import OLDEST_SERVER
from triumvir.store.statements import Connection, statement

LONG_OPEN_SECONDS: Final = 300
"""No transaction of Triumvir is open for a tenth of it."""
_UNSET: Final = ill(
    "orders database",
    "the order documents are in another database, and TRIUMVIR_ORDERS_DSN is not set",
    "set it as it is set for the services",
)


@dataclass(frozen=True, slots=True)
class _Place:
    """One of the two databases: what it is called, the setting that names it, and whose migrations it has."""

    name: str
    setting: str
    url: str
    series: Series


Further = Callable[[Connection], Awaitable[Iterable[Finding]]]


async def look_at_databases(settings: Settings, needs: Needs) -> list[Finding]:
    """Every finding of the state repository, and of the database of order documents if that is another."""
    repository = _Place("database", "TRIUMVIR_DATABASE_URL", settings.database_url, "migrations")
    findings = await _visited(settings, repository, partial(_state, needs))
    if settings.orders_dsn is None:
        return findings + ([_UNSET] if needs.documents else [])
    elsewhere = _Place("orders database", "TRIUMVIR_ORDERS_DSN", settings.orders_dsn, "document_migrations")
    return findings + await _visited(settings, elsewhere, partial(_pair, needs, settings))


async def _visited(settings: Settings, place: _Place, further: Further) -> list[Finding]:
    """What is found at one place; a fault half-way keeps what was found before."""
    findings: list[Finding] = []
    try:
        async with operators.look(settings, place.url, place.setting) as connection:
            await _inside(connection, place, settings.database_schema, further, findings)
    except StoreRefused as error:
        fix = f"correct user, password or database in {place.setting}, or make there what is missing"
        findings.append(ill(place.name, str(error), fix))
    except StoreError as error:
        findings.append(ill(place.name, str(error), f"check {place.setting}, and that Postgres runs there"))
    return findings


async def _inside(
    connection: Connection, place: _Place, schema: str, further: Further, findings: list[Finding]
) -> None:
    """Adds to ``findings`` as it goes; ends where the rest cannot be read."""
    findings += [_server(connection, place), await _clock(connection, place)]
    for look in (_rights, _schema):
        findings.append(await look(connection, place, schema))
        if findings[-1].problem is not None:
            return
    findings += await further(connection)


async def _state(needs: Needs, connection: Connection) -> list[Finding]:
    row = await statement("documents_elsewhere").row(connection)
    needs.is_state_known, needs.documents, needs.mark = True, None if row is None else row["id"], row
    left = [] if row is None else await left_behind(connection)
    return [
        *await look_at_services(connection, needs),
        await _backlog(connection),
        await _oldest(connection),
        *left,
    ]


async def _pair(needs: Needs, settings: Settings, connection: Connection) -> list[Finding]:
    """Whether state repository and orders database belong together, and are compared."""
    store_id = await statement("document_store_id").value(connection)
    if needs.mark is not None and needs.documents == store_id:
        return [await compared(connection, settings, needs.mark)]
    if not needs.is_state_known:
        return []
    if needs.documents is None:
        problem = "the state repository does not know of it, so services refuse to start"
        return [ill("orders database", problem, "triumvir migrate, with TRIUMVIR_ORDERS_DSN set")]
    return [ill("orders database", "it belongs to another system", "correct TRIUMVIR_ORDERS_DSN")]


def _server(connection: Connection, place: _Place) -> Finding:
    version = connection.get_settings().server_version
    if connection.get_server_version().major < OLDEST_SERVER:
        return ill(
            place.name,
            f"Postgres {version} is too old",
            f"upgrade the server to Postgres {OLDEST_SERVER} or newer; services refuse to start on this one",
        )
    return well(place.name, f"Postgres {version}")


async def _clock(connection: Connection, place: _Place) -> Finding:
    before = datetime.now(UTC)
    there: datetime = await statement("clock").value(connection)
    after = datetime.now(UTC)
    return clock(place.name, there, there, before, after, "deadlines go by the database's")


async def _rights(connection: Connection, place: _Place, schema: str) -> Finding:
    """What services do, they must be allowed to; a schema that is not there yet forbids nothing."""
    user = await statement("current_user").value(connection)
    subject = f"{place.name} permissions"
    usable = await statement("schema_is_usable").value(connection, schema=schema)
    if usable is None:
        return well(subject, f"user {user!r} may connect; there is no schema {schema!r} yet")
    if not usable:
        problem = f"user {user!r} may not look into schema {schema!r}"
        return ill(subject, problem, f"as its owner: {_grant(schema, user)}")
    lacking = await statement("lacking_privileges").rows(connection, schema=schema)
    if lacking:
        named = "; ".join(f"{row['verb']} {_some(row['tables'])}" for row in lacking)
        problem = f"user {user!r} may not do everything that services do: {named}"
        return ill(subject, problem, f"as the tables' owner: {_grant(schema, user)}")
    return well(subject, f"user {user!r} may do what services do")


def _grant(schema: str, user: str) -> str:
    return (
        f'grant usage on schema {schema} to "{user}"; '
        f'grant select, insert, update, delete on all tables in schema {schema} to "{user}"'
    )


def _some(tables: list[str]) -> str:
    shown = ", ".join(tables[:3])
    return shown if len(tables) <= 3 else f"{shown} and {len(tables) - 3} more tables"


async def _schema(connection: Connection, place: _Place, schema: str) -> Finding:
    subject = f"{place.name} schema"
    state = await read_schema(connection, schema, place.series)
    if state.problem is None:
        return well(subject, "is the one of this release")
    if state.ahead:
        problem = f"schema {schema!r} was made by a later release (migration {state.ahead[-1]})"
        return ill(subject, problem, "upgrade triumvir on this machine")
    if state.changed:
        fix = (
            "use the release that made it, or restore that migration's file; never edit one that was applied"
        )
        return ill(subject, state.problem, fix)
    names = ", ".join(f"{migration.number:04}_{migration.name}" for migration in state.pending)
    return ill(subject, f"schema {schema!r} lacks {names}", "triumvir migrate")


async def _backlog(connection: Connection) -> Finding:
    row = await statement("ageing").row(connection)
    if row is None or not row["unsent"]:
        return well("outbox", "nothing is overdue")
    return ill(
        "outbox",
        f"{row['unsent']} rows wait to be sent, the oldest is overdue for {row['seconds']:.0f} s",
        "see that a scheduler runs, and that the broker takes messages",
    )


async def _oldest(connection: Connection) -> Finding:
    row = await statement("oldest_transaction").row(connection)
    if row is None or row["seconds"] < LONG_OPEN_SECONDS:
        return well("transactions", "none is open for long")
    whose = (
        f"session {row['pid']} ({row['user']}, {row['application_name'] or 'without a name'}, {row['state']})"
    )
    return ill(
        "transactions",
        f"{whose} has one open for {row['seconds']:.0f} s: rows that changed since stay in the way of claims",
        f"have it end; or, as its user or a superuser: select pg_terminate_backend({row['pid']})",
    )
