"""What a database error means for a batch."""

from __future__ import annotations

from enum import Enum

import asyncpg


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
