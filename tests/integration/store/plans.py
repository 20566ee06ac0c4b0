"""What Postgres does to run a statement: which indexes, which tables from end to end, how many pages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import asyncpg

from triumvir.store.statements import statement


@dataclass(frozen=True, slots=True)
class Plan:
    """Of one execution. ``pages``: 8 kB pages looked at, in memory or not."""

    indexes: frozenset[str]
    scanned_whole: frozenset[str]
    pages: int
    text: str


async def plan_of(connection: asyncpg.Connection, name: str, values: Mapping[str, Any]) -> Plan:
    """Runs a named statement as the services do, prepared; what it changed is rolled back."""
    wanted = statement(name)
    given = ", ".join(_literal(values[parameter]) for parameter in wanted.parameters)
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(f"prepare measured as {wanted.sql.strip().rstrip(';')}")
        execution = f"execute measured({given})" if given else "execute measured"
        explained = await connection.fetchval(f"explain (analyze, buffers, format json) {execution}")
    finally:
        await transaction.rollback()
    await connection.execute("deallocate measured")
    root = json.loads(explained)[0]["Plan"]
    nodes = list(_nodes(root))
    return Plan(
        indexes=frozenset(node["Index Name"] for node in nodes if "Index Name" in node),
        scanned_whole=frozenset(node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"),
        pages=root["Shared Hit Blocks"] + root["Shared Read Blocks"],
        text="\n".join(_lines(root)),
    )


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _lines(node: dict[str, Any], depth: int = 0) -> Iterator[str]:
    where = node.get("Index Name") or node.get("Relation Name") or ""
    pages = node["Shared Hit Blocks"] + node["Shared Read Blocks"]
    yield f"{'  ' * depth}{node['Node Type']} {where} rows={node['Actual Rows']} pages={pages}"
    for child in node.get("Plans", ()):
        yield from _lines(child, depth + 1)


def _literal(value: Any) -> str:
    """A parameter of EXECUTE; its type is the statement's."""
    if value is None:
        return "null"
    text = "{" + ",".join(map(_element, value)) + "}" if isinstance(value, list) else str(value)
    return "'" + text.replace("'", "''") + "'"


def _element(value: Any) -> str:
    if value is None:
        return "null"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
