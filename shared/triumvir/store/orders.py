"""Reading the orders of a batch and writing what was decided about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import asyncpg

from triumvir.errors import StoreError
from triumvir.lifecycle import Decision, OrderRecord, StepRecord
from triumvir.store.statements import Connection, statement

_ORDER_FIELDS: Final = (
    "no", "client", "order_id", "workflow", "version", "state", "locked_by", "fence", "attempt", "step",
    "sent_at", "complete_by", "wake_at", "retries", "not_before", "held_by", "cancel_requested",
    "failure_count", "unbegun_count", "sequence", "history", "progress", "told_retrying", "told_held",
    "status_queue", "trace", "ended_at",
)  # fmt: skip
_STEP_FIELDS: Final = (
    "step_no", "attempt", "state", "calls", "effect", "result", "error", "undo_state", "undo_tries",
    "undo_generation", "undo_error",
)  # fmt: skip


async def lock(connection: Connection, nos: Iterable[int]) -> list[int]:
    """Locks these orders in key order; returns those that exist."""
    rows = await statement("lock_orders").rows(connection, nos=sorted(set(nos)))
    return [row["no"] for row in rows]


async def read(connection: Connection, nos: Sequence[int]) -> tuple[datetime, dict[int, OrderRecord]]:
    """The locked orders with their steps, and the database's clock. ``nos`` must not be empty."""
    orders = await statement("read_orders").rows(connection, nos=nos)
    steps: dict[int, list[StepRecord]] = {}
    for row in await statement("read_steps").rows(connection, nos=nos):
        steps.setdefault(row["no"], []).append(StepRecord(*row[1:]))
    if not orders:
        raise StoreError(f"orders {list(nos)[:5]} are gone although they are locked")
    return orders[0]["now"], {row["no"]: _record(row, steps.get(row["no"], ())) for row in orders}


def _record(row: asyncpg.Record, steps: Iterable[StepRecord]) -> OrderRecord:
    return OrderRecord(**dict(zip(_ORDER_FIELDS, row[1:], strict=True)), steps=tuple(steps))


async def payloads(connection: Connection, records: Iterable[OrderRecord]) -> dict[int, str]:
    """The payload texts of these orders by number."""
    wanted = {(record.client, record.order_id): record.no for record in records}
    rows = await statement("read_documents").rows(
        connection, clients=[key[0] for key in wanted], order_ids=[key[1] for key in wanted]
    )
    return {wanted[row["client"], row["order_id"]]: row["payload"] for row in rows}


async def write(
    connection: Connection,
    before: Mapping[int, OrderRecord],
    decisions: Mapping[int, Decision],
    *,
    who: str,
    instance: UUID,
) -> None:
    """Writes one decision per order: the record, the steps it changed, its history.

    Raises StoreError if a row was not as it was read: that cannot be while its lock is held.
    """
    changed = {no: decision for no, decision in decisions.items() if decision.changed}
    if not changed:
        return
    records = [decision.record for decision in changed.values()]
    written = await statement("write_orders").rows(
        connection, touched_by=instance, **_order_columns(records, before)
    )
    if len(written) != len(records):
        missing = {record.no for record in records} - {row["no"] for row in written}
        raise StoreError(f"orders {sorted(missing)} moved under their lock")
    await _write_steps(connection, before, records)
    await _append_log(connection, changed, who)


def _order_columns(records: Sequence[OrderRecord], before: Mapping[int, OrderRecord]) -> dict[str, Any]:
    column = {name: [getattr(record, name) for record in records] for name in _ORDER_FIELDS}
    return {
        "nos": column["no"],
        "history_before": [before[record.no].history for record in records],
        "states": column["state"],
        "locked_by": column["locked_by"],
        "fences": column["fence"],
        "attempts": column["attempt"],
        "steps": column["step"],
        "sent_at": column["sent_at"],
        "complete_by": column["complete_by"],
        "wake_at": column["wake_at"],
        "retries": column["retries"],
        "not_before": column["not_before"],
        "held_by": column["held_by"],
        "cancel_requested": column["cancel_requested"],
        "failure_counts": column["failure_count"],
        "unbegun_counts": column["unbegun_count"],
        "sequences": column["sequence"],
        "histories": column["history"],
        "told_retrying": column["told_retrying"],
        "told_held": column["told_held"],
        "ended_at": column["ended_at"],
    }


async def _write_steps(
    connection: Connection, before: Mapping[int, OrderRecord], records: Sequence[OrderRecord]
) -> None:
    rows = [
        (record.no, *(getattr(step, name) for name in _STEP_FIELDS))
        for record in records
        for step in record.steps
        if step not in before[record.no].steps
    ]
    if not rows:
        return
    columns = zip(*rows, strict=True)
    names = statement("write_steps").parameters
    await statement("write_steps").rows(
        connection, **{name: list(values) for name, values in zip(names, columns, strict=True)}
    )


async def _append_log(connection: Connection, decisions: Mapping[int, Decision], who: str) -> None:
    entries = [(no, row) for no, decision in decisions.items() for row in decision.log]
    await statement("append_transitions").rows(
        connection,
        who=who,
        nos=[no for no, _ in entries],
        ns=[row.n for _, row in entries],
        ats=[row.at for _, row in entries],
        from_states=[row.before for _, row in entries],
        to_states=[row.after for _, row in entries],
        whys=[row.why for _, row in entries],
        step_nos=[row.step_no for _, row in entries],
        statuses=[row.status for _, row in entries],
        sequences=[row.sequence for _, row in entries],
    )
