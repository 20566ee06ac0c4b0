"""Connections for the SQL of operations: the same database, without the pinned plans of the services."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from triumvir.errors import Transient
from triumvir.settings import Settings
from triumvir.store.faults import DATABASE_ERRORS
from triumvir.store.statements import statement

CONNECT_SECONDS: Final = 5.0
RESET_SECONDS: Final = 5.0


class BusinessConnection(asyncpg.Connection):
    """What ``ctx.transaction()`` yields: an asyncpg connection inside a transaction."""

    __slots__ = ("_altered",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._altered = False

    async def set_type_codec(self, *args: Any, **kwargs: Any) -> None:
        """As asyncpg's. The connection is not kept for others, since asyncpg cannot tell what to take back."""
        self._altered = True
        await super().set_type_codec(*args, **kwargs)

    async def set_builtin_type_codec(self, *args: Any, **kwargs: Any) -> None:
        """As asyncpg's; see :meth:`set_type_codec`."""
        self._altered = True
        await super().set_builtin_type_codec(*args, **kwargs)

    async def as_new(self) -> bool:
        """Takes back what was set for the session: settings, role, locks, temporary tables, prepared statements,
        listeners. False if it is not known to be as it was opened, and must not be used again.
        """
        if self._altered or self.is_in_transaction():
            return False
        try:
            await self.reset(timeout=RESET_SECONDS)
        except DATABASE_ERRORS:
            return False
        return True

    def get_reset_query(self) -> str:
        """Like ``discard all``, but without ``deallocate all``, which would take asyncpg's own statements too."""
        return statement("forget_session").sql


async def open_connection(settings: Settings) -> BusinessConnection:
    """A connection on which the inbox and public tables are in reach. Raises Transient: nothing has happened yet."""
    timeout = settings.statement_timeout.total_seconds()
    try:
        return await asyncpg.connect(
            settings.database_url,
            connection_class=BusinessConnection,
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
