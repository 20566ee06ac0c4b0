"""The named statements of sql/*.sql, loaded once by aiosql and run through asyncpg's own calls.

aiosql's generated functions are async generators that look the connection over at every call; here only its
loader and its ``:name`` to ``$n`` rewriting are used, so that a statement is one plain asyncpg call.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

import aiosql
import asyncpg
from aiosql.adapters.asyncpg import AsyncPGAdapter

Connection: TypeAlias = asyncpg.Connection | asyncpg.pool.PoolConnectionProxy
Row: TypeAlias = asyncpg.Record


@dataclass(frozen=True, slots=True)
class Statement:
    """One named statement; parameters are given by name."""

    name: str
    sql: str
    parameters: tuple[str, ...]

    def _ordered(self, values: dict[str, Any]) -> list[Any]:
        if len(values) != len(self.parameters):
            raise TypeError(f"{self.name} takes {self.parameters}, got {tuple(values)}")
        return [values[name] for name in self.parameters]

    async def rows(self, connection: Connection, **values: Any) -> list[asyncpg.Record]:
        """Every row."""
        return await connection.fetch(self.sql, *self._ordered(values))

    async def row(self, connection: Connection, **values: Any) -> asyncpg.Record | None:
        """The first row, or None."""
        return await connection.fetchrow(self.sql, *self._ordered(values))

    async def value(self, connection: Connection, **values: Any) -> Any:
        """The first column of the first row, or None."""
        return await connection.fetchval(self.sql, *self._ordered(values))


@cache
def _loaded() -> dict[str, Statement]:
    adapter = AsyncPGAdapter()  # type: ignore[no-untyped-call]
    folder = Path(str(files("triumvir.store").joinpath("sql")))
    queries = aiosql.from_path(folder, lambda *_: adapter, mandatory_parameters=False)
    names = [name for name in queries.available_queries if not name.endswith("_cursor")]
    return {
        name: Statement(name, getattr(queries, name).sql, tuple(adapter.var_sorted[name])) for name in names
    }


def statement(name: str) -> Statement:
    """The statement of that name in sql/*.sql. KeyError if there is none."""
    return _loaded()[name]
