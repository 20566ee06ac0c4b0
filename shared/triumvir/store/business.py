"""Connections for the SQL of operations: the same database, without the pinned plans of the services."""

from __future__ import annotations

from typing import Final, TypeAlias

import asyncpg

from triumvir.errors import Transient
from triumvir.settings import Settings
from triumvir.store.faults import DATABASE_ERRORS

CONNECT_SECONDS: Final = 5.0

BusinessConnection: TypeAlias = asyncpg.Connection
"""What ``ctx.transaction()`` yields: an asyncpg connection inside a transaction."""


async def open_connection(settings: Settings) -> BusinessConnection:
    """A connection on which the inbox and public tables are in reach. Raises Transient: nothing has happened yet."""
    timeout = settings.statement_timeout.total_seconds()
    try:
        return await asyncpg.connect(
            settings.database_url,
            timeout=CONNECT_SECONDS,
            command_timeout=timeout + 5,
            server_settings={
                "application_name": "triumvir operation",
                "search_path": f"{settings.database_schema}, public",
                "timezone": "UTC",
                "statement_timeout": str(round(timeout * 1000)),
                "lock_timeout": str(round(timeout * 1000)),
                "idle_in_transaction_session_timeout": str(round(timeout * 6000)),
            },
        )
    except DATABASE_ERRORS as error:
        problem = f"Postgres cannot be reached: {str(error) or type(error).__name__}"
        raise Transient(problem, effect="none") from error
