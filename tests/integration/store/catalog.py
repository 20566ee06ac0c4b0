"""The schema as text, out of Postgres' own catalog: equal schemas have equal texts on every server version.

``TRIUMVIR_TEST_REWRITE=1 pytest tests/integration/store/test_schema.py`` writes the committed one anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from triumvir.store.statements import Connection

SNAPSHOT = Path(__file__).with_name("schema.txt")

_TABLES = """
    select c.oid, c.relname as name, c.relkind = 'p' as is_partitioned,
           pg_get_partkeydef(c.oid) as partition_key, pg_get_expr(c.relpartbound, c.oid) as partition_of,
           coalesce(array(select unnest(c.reloptions) order by 1), '{}') as options
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = current_schema() and c.relkind in ('r', 'p') order by c.relname
"""
_COLUMNS = """
    select a.attname as name, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull as needed,
           a.attidentity <> '' as counted, pg_get_expr(d.adbin, d.adrelid) as otherwise
    from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped order by a.attnum
"""
# Not null is told with the column; newer servers list it as a constraint, too.
_CONSTRAINTS = """
    select conname || ': ' || pg_get_constraintdef(oid) as line from pg_constraint
    where conrelid = $1 and contype in ('p', 'u', 'f', 'c', 'x') order by conname
"""
_INDEXES = """
    select pg_get_indexdef(i.indexrelid) as line from pg_index i
    where i.indrelid = $1 and not exists (select from pg_constraint c where c.conindid = i.indexrelid)
    order by 1
"""
_TRIGGERS = """
    select pg_get_triggerdef(oid) as line from pg_trigger where tgrelid = $1 and not tgisinternal order by 1
"""
_FUNCTIONS = """
    select p.proname || '(' || pg_get_function_arguments(p.oid) || '): ' || p.prosrc as line
    from pg_proc p where p.pronamespace = current_schema()::regnamespace order by 1
"""


async def render(connection: Connection) -> str:
    """The schema of the connection's search path."""
    lines: list[str] = []
    for table in await connection.fetch(_TABLES):
        lines += ["", *_heading(table)]
        lines += [f"    {_column(row)}" for row in await connection.fetch(_COLUMNS, table["oid"])]
        for query in (_CONSTRAINTS, _INDEXES, _TRIGGERS):
            lines += [f"    {row['line']}" for row in await connection.fetch(query, table["oid"])]
    lines += ["", *(row["line"].rstrip() for row in await connection.fetch(_FUNCTIONS))]
    return "\n".join(lines).strip() + "\n"


def _heading(table: Any) -> list[str]:
    parts = [f"table {table['name']}"]
    if table["is_partitioned"]:
        parts.append(f"partitioned by {table['partition_key']}")
    if table["partition_of"]:
        parts.append(f"partition {table['partition_of']}")
    return [" ".join(parts), *(f"    with {option}" for option in table["options"])]


def _column(row: Any) -> str:
    parts = [row["name"], row["type"]]
    if row["needed"]:
        parts.append("not null")
    if row["counted"]:
        parts.append("identity")
    elif row["otherwise"] is not None:
        parts.append(f"default {row['otherwise']}")
    return " ".join(parts)
