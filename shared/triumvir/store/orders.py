"""Reading the orders of a batch and writing what was decided about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import asyncpg

from triumvir.lifecycle import Decision, OrderRecord, StepRecord
from triumvir.store.statements import Connection, statement

_ORDER_FIELDS: Final = (
    "no", "client", "order_id", "workflow", "version", "state", "locked_by", "fence", "attempt", "step",
    "sent_at", "complete_by", "wake_at", "retries", "not_before", "held_by", "held_at",
    "paused_at", "paused_by", "cancel_requested", "failure_count", "unbegun_count", "sequence", "history",
    "progress", "told_retrying", "told_held", "status_queue", "trace", "ended_at", "budget",
)  # fmt: skip
_ORDER_PART: Final = slice(1, 1 + len(_ORDER_FIELDS))
_STEP_PART: Final = slice(_ORDER_PART.stop, -2)
_ORDER_COLUMNS: Final = {
    "nos": "no", "states": "state", "locked_by": "locked_by", "fences": "fence", "attempts": "attempt",
    "steps": "step", "sent_at": "sent_at", "complete_by": "complete_by", "wake_at": "wake_at",
    "retries": "retries", "not_before": "not_before", "held_by": "held_by",
    "held_at": "held_at", "paused_at": "paused_at", "paused_by": "paused_by",
    "cancel_requested": "cancel_requested", "failure_counts": "failure_count",
    "unbegun_counts": "unbegun_count", "sequences": "sequence", "histories": "history",
    "told_retrying": "told_retrying", "told_held": "told_held", "ended_at": "ended_at",
    "budgets": "budget",
}  # fmt: skip
_STEP_COLUMNS: Final = {
    "step_nos": "step_no", "step_attempts": "attempt", "step_states": "state", "calls": "calls",
    "effects": "effect", "results": "result", "errors": "error", "undo_states": "undo_state",
    "undo_tries": "undo_tries", "undo_generations": "undo_generation", "undo_errors": "undo_error",
    "step_generations": "generation", "by_hands": "by_hand",
    "waits_left": "wait_left",
    "undo_calls": "undo_calls", "calls_upto": "calls_upto", "undo_limits": "undo_limit",
    "undo_attempts": "undo_attempt",
    "undo_sent_at": "undo_sent_at", "undo_complete_by": "undo_complete_by", "undo_wake_at": "undo_wake_at",
    "undo_retries": "undo_retries",
    "led_to": "led_to", "asking": "asking", "progress": "progress",
}  # fmt: skip
_LOG_COLUMNS: Final = {
    "ns": "n", "ats": "at", "from_states": "before", "to_states": "after", "whys": "why",
    "log_steps": "step_no", "statuses": "status", "log_sequences": "sequence", "accounts": "account",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Locked:
    """Orders that are locked: the history number of each, and the database's clock once they were (None: there are
    none).
    """

    histories: dict[int, int]
    now: datetime | None

    def __contains__(self, no: int) -> bool:
        return no in self.histories


async def lock(connection: Connection, nos: Iterable[int]) -> Locked:
    """Locks these orders in key order, as far as they exist."""
    rows = await statement("lock_orders").rows(connection, nos=sorted(set(nos)))
    return Locked({row["no"]: row["history"] for row in rows}, rows[-1]["now"] if rows else None)


@dataclass(frozen=True, slots=True)
class Found:
    """Orders as they were read: ``now`` is the database's clock then. Of those that were never claimed, ``payloads``
    has the payload texts that are in this database, and ``asked`` says that a command waits.
    """

    now: datetime
    records: dict[int, OrderRecord]
    payloads: dict[int, str]
    asked: frozenset[int]


async def read(connection: Connection, nos: Sequence[int]) -> Found | None:
    """Those of these orders that exist, with their steps; None if none does."""
    rows = await statement("read_orders").rows(connection, nos=nos)
    if not rows:
        return None
    by_order: dict[int, list[asyncpg.Record]] = {}
    for row in rows:
        by_order.setdefault(row["no"], []).append(row)
    return Found(
        now=rows[0]["now"],
        records={no: _record(of_order) for no, of_order in by_order.items()},
        payloads={no: row["payload"] for no, (row, *_) in by_order.items() if row["payload"] is not None},
        asked=frozenset(row["no"] for row in rows if row["asked"]),
    )


def _record(rows: Sequence[asyncpg.Record]) -> OrderRecord:
    """From the rows of one order: its own columns, then those of a step, null in the one row without any."""
    steps = tuple(StepRecord(*row[_STEP_PART]) for row in rows if row["step_no"] is not None)
    return OrderRecord(**dict(zip(_ORDER_FIELDS, rows[0][_ORDER_PART], strict=True)), steps=steps)


async def payloads(connection: Connection, records: Iterable[OrderRecord]) -> dict[int, str]:
    """The payload texts of these orders by number."""
    wanted = {(record.client, record.order_id): record.no for record in records}
    rows = await statement("read_documents").rows(
        connection, clients=[key[0] for key in wanted], order_ids=[key[1] for key in wanted]
    )
    return {wanted[row["client"], row["order_id"]]: row["payload"] for row in rows}


@dataclass(frozen=True, slots=True)
class Riders:
    """What else is written with the last decisions of a transaction: the outbox row of everything it has to
    publish, the change in open orders, and the deletion of outbox rows that are fully confirmed.
    """

    refs: str | None = None
    lease_seconds: float = 0.0
    opened: int = 0
    confirmed: Sequence[int] = ()


async def write(
    connection: Connection,
    before: Mapping[int, OrderRecord],
    decisions: Mapping[int, Decision],
    riders: Riders,
    *,
    who: str,
    instance: UUID,
) -> int | None:
    """Writes one decision per order: the record, the steps it changed, its history. Returns the outbox row's id.

    If an order is not as it was read, nothing is written and a serialization failure is raised (class 40). That cannot
    be while its lock is held.
    """
    changed = {no: decision for no, decision in decisions.items() if decision.changed}
    records = [decision.record for decision in changed.values()]
    row = await statement("write_decisions").row(
        connection,
        who=who,
        touched_by=instance,
        refs=riders.refs,
        lease_seconds=riders.lease_seconds,
        opened=riders.opened,
        confirmed=list(riders.confirmed),
        **_order_columns(records, before),
        **_step_columns(records, before),
        **_log_columns(changed),
    )
    return None if row is None else row["outbox_id"]


def _order_columns(records: Sequence[OrderRecord], before: Mapping[int, OrderRecord]) -> dict[str, Any]:
    columns: dict[str, Any] = {
        parameter: [getattr(record, name) for record in records] for parameter, name in _ORDER_COLUMNS.items()
    }
    columns["history_before"] = [before[record.no].history for record in records]
    return columns


def _step_columns(records: Sequence[OrderRecord], before: Mapping[int, OrderRecord]) -> dict[str, Any]:
    rows = [
        (record.no, step)
        for record in records
        for step in record.steps
        if step not in before[record.no].steps
    ]
    columns: dict[str, Any] = {
        parameter: [getattr(step, name) for _, step in rows] for parameter, name in _STEP_COLUMNS.items()
    }
    columns["step_orders"] = [no for no, _ in rows]
    return columns


def _log_columns(decisions: Mapping[int, Decision]) -> dict[str, Any]:
    entries = [(no, row) for no, decision in decisions.items() for row in decision.log]
    columns: dict[str, Any] = {
        parameter: [getattr(row, name) for _, row in entries] for parameter, name in _LOG_COLUMNS.items()
    }
    columns["log_orders"] = [no for no, _ in entries]
    return columns
