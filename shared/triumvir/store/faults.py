"""What a database error means for a batch."""

from __future__ import annotations

from enum import Enum
from typing import Final

import asyncpg

DATABASE_ERRORS: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what asyncpg raises on a connection whose backend is being terminated
)
"""What a statement raises when it, or its connection, fails."""

_LOST: Final = (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class Fault(Enum):
    """What to do about an error."""

    DATA = "data"
    """A value that Postgres refuses: find the row, set it aside, run the rest."""
    AGAIN = "again"
    """A deadlock or serialization failure: run the whole batch again."""
    OTHER = "other"
    """Anything else, an unknown commit included: nothing is acknowledged, back off."""


def fault(error: BaseException) -> Fault:
    """Classes 22 and 23 are data errors (and what asyncpg cannot encode), class 40 is worth repeating."""
    if isinstance(error, asyncpg.DataError):
        return Fault.DATA
    state = getattr(error, "sqlstate", None)
    if not isinstance(state, str):
        return Fault.OTHER
    if state.startswith(("22", "23")):
        return Fault.DATA
    return Fault.AGAIN if state.startswith("40") or state == "55P03" else Fault.OTHER


def loses_connection(error: BaseException) -> bool:
    """Whether the connection that raised ``error`` must not be used again: it is cut off, or what it is doing is
    not known.
    """
    if isinstance(error, _LOST) or not isinstance(error, Exception):
        return True
    state = getattr(error, "sqlstate", None)
    return isinstance(state, str) and (state.startswith(("08", "57P")) or state == "25P03")
