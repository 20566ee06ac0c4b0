"""What operators do to the store: apply workflows, ask for cancels. Orders themselves are moved by schedulers only."""

from __future__ import annotations

import json
import urllib.parse
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Literal

import asyncpg

from triumvir.errors import DefinitionError, StoreError, StoreRefused
from triumvir.lifecycle import Action
from triumvir.settings import Settings
from triumvir.store.faults import DATABASE_ERRORS
from triumvir.store.migrate import check_schema
from triumvir.store.session import CONNECT_SECONDS
from triumvir.store.statements import Connection, statement
from triumvir.workflow import Workflow

DISGUISED: Final = ("pause", "unpause", "signal")
"""What schedulers of the release before do not know, and would take for a cancel: see migration 0012."""
NO_FENCE: Final = -1


@asynccontextmanager
async def connect(settings: Settings) -> AsyncIterator[Connection]:
    """One connection for an operator's command, without the pinned plans of the services.

    Raises StoreError for every fault of Postgres, and if the schema is not the one of this release.
    """
    async with _connected(settings, settings.database_url, "TRIUMVIR_DATABASE_URL", {}) as connection:
        await check_schema(connection, settings.database_schema)
        yield connection


@asynccontextmanager
async def look(
    settings: Settings, url: str, setting: str = "TRIUMVIR_DATABASE_URL"
) -> AsyncIterator[Connection]:
    """One connection to the database at ``url`` that Postgres itself lets only read, whatever the schema.

    Raises StoreError, naming the ``setting`` that holds the URL.
    """
    read_only = {"default_transaction_read_only": "on"}
    async with _connected(settings, url, setting, read_only) as connection:
        yield connection


@asynccontextmanager
async def _connected(
    settings: Settings, url: str, setting: str, options: dict[str, str]
) -> AsyncIterator[Connection]:
    try:
        connection = await _open(settings, url, options)
    except (*DATABASE_ERRORS, ValueError) as error:
        raise _why_not(url, setting, error) from None
    try:
        yield connection
        await connection.close(timeout=2)
    except DATABASE_ERRORS as error:
        raise StoreError(f"Postgres: {str(error) or type(error).__name__}") from None
    finally:
        connection.terminate()


def _why_not(url: str, setting: str, error: BaseException) -> StoreError:
    place = urllib.parse.urlsplit(url).netloc.rpartition("@")[2] or "localhost"
    problem = str(error) or type(error).__name__
    if isinstance(error, asyncpg.PostgresError):
        return StoreRefused(f"Postgres at {place} refused the connection: {problem} ({setting})")
    return StoreError(f"Postgres at {place} cannot be reached: {problem} ({setting})")


async def _open(settings: Settings, url: str, options: dict[str, str]) -> asyncpg.Connection:
    timeout = settings.statement_timeout.total_seconds()
    return await asyncpg.connect(
        url,
        timeout=CONNECT_SECONDS,
        command_timeout=timeout + 5,
        server_settings={
            "application_name": "triumvir operator",
            "search_path": settings.database_schema,
            "timezone": "UTC",
            "statement_timeout": str(round(timeout * 1000)),
            **options,
        },
    )


async def apply_workflow(connection: Connection, workflow: Workflow) -> Literal["applied", "unchanged"]:
    """Register a workflow version. Raises DefinitionError, naming what differs, if another one has that version."""
    values = {"name": workflow.name, "version": workflow.version}
    inserted = await statement("insert_workflow").value(
        connection, definition=workflow.to_json(), digest=workflow.digest(), **values
    )
    if inserted is not None:
        return "applied"
    row = await statement("read_workflow").row(connection, **values)
    if row is None:
        raise StoreError(
            f"workflow {workflow.name!r} version {workflow.version} was removed meanwhile; try again"
        )
    if row["digest"] == workflow.digest():
        return "unchanged"
    before = Workflow.from_json(row["definition"])
    raise DefinitionError(
        f"workflow {workflow.name!r} version {workflow.version} is registered with another definition"
        f" ({'; '.join(differences(before, workflow))}); orders in flight need the old one, so give the"
        f" changed one version={workflow.version + 1}"
    )


_WHOLE: Final = ("on_error", "undo_order", "classification", "retention_days")
_PARTS: Final = (
    "agent", "operation", "undo", "complete_within", "when", "select", "signal", "within", "default",
    "on_timeout", "main_line", "recoverable",
)  # fmt: skip


def differences(before: Workflow, after: Workflow) -> list[str]:
    """What differs, in words: ``step 'charge': undo was 'refund', is None``."""
    found = []
    for part in _WHOLE:
        was, now = getattr(before, part), getattr(after, part)
        if was != now:
            found.append(f"{part} was {_shown(was)}, is {_shown(now)}")
    old, new = ({step.name: step for step in workflow.steps} for workflow in (before, after))
    found += [f"step {name!r} is gone" for name in old if name not in new]
    found += [f"step {name!r} is new" for name in new if name not in old]
    for name in (name for name in old if name in new):
        for part in _PARTS:
            was, now = getattr(old[name], part, None), getattr(new[name], part, None)
            if was != now:
                found.append(f"step {name!r}: {part} was {_shown(was)}, is {_shown(now)}")
    order = [name for name in old if name in new]
    if order != [name for name in new if name in old]:
        found.append(f"the steps stood in the order {', '.join(order)}")
    return found


def _shown(value: object) -> str:
    return (
        str(dict(value))
        if isinstance(value, Mapping)
        else repr(value)
        if isinstance(value, str)
        else str(value)
    )


async def ask_cancel(connection: Connection, client: str, order_id: str, who: str, reason: str | None) -> str:
    """Write an operator's cancel down; a scheduler takes it. ``who`` asked is kept. Returns the command's id."""
    return await _ask(connection, client, order_id, "cancel", who, {"reason": storable(reason)})


async def ask_move(
    connection: Connection,
    client: str,
    order_id: str,
    action: Action,
    *,
    who: str,
    reason: str | None,
    fence: int | None,
    result: str | None = None,
) -> str:
    """Write an operator's move of an order down; a scheduler takes it. Returns the command's id.

    ``fence`` is the order's as the operator saw it: if it has moved on since, it is left alone. None: however it is.
    ``result`` is the JSON text that a skipped step would have returned.
    """
    members: dict[str, object] = {"reason": storable(reason), "fence": fence, "result": result}
    return await _ask(connection, client, order_id, action, who, members)


async def ask_signal(
    connection: Connection, client: str, order_id: str, name: str, data: str, *, who: str, reason: str
) -> str:
    """Write an operator's signal down, its ``data`` as JSON text; a scheduler takes it. Returns the command's id."""
    members = {"name": name, "data": data, "reason": storable(reason)}
    return await _ask(connection, client, order_id, "signal", who, members)


async def _ask(
    connection: Connection, client: str, order_id: str, kind: str, who: str, members: Mapping[str, object]
) -> str:
    message_id = f"{who}/{uuid.uuid4()}"
    await statement("insert_commands").rows(
        connection,
        clients=[client],
        order_ids=[order_id],
        message_ids=[message_id],
        kinds=[kind],
        data=[json.dumps(command_data(kind, who, members))],
    )
    return message_id


def command_data(kind: str, who: str, members: Mapping[str, object]) -> dict[str, object]:
    """What a command says beside its kind. The fence of a disguised one stands where the release before never looks."""
    said = {**members, "by": storable(who)}
    return said if kind not in DISGUISED else {**said, "seen": members.get("fence"), "fence": NO_FENCE}


def storable(text: str | None) -> str | None:
    """What was typed may hold bytes that are no text; they are kept as escapes."""
    return None if text is None else text.replace("\x00", "\\0").encode("utf-8", "backslashreplace").decode()
