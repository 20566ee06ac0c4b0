"""With a million finished orders, what runs all the time still reads only what is alive."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import asyncpg
import pytest

from tests.integration.store import aged
from tests.integration.store.plans import plan_of
from tests.servers import SCHEMA, ServerSet, blocking
from triumvir.settings import Settings
from triumvir.store import session

BATCH: Final = 200
SMALL: Final = frozenset({"admission", "instances", "workflows"})
"""Tables of a few rows, which nobody minds to read from end to end."""


@dataclass(frozen=True)
class Scan:
    """A statement that looks for work: its indexes, and the pages it may look at to find a batch."""

    values: dict[str, Any]
    indexes: frozenset[str]
    pages: int


def _scan(*indexes: str, pages: int, **values: Any) -> Scan:
    return Scan(values, frozenset(indexes), pages)


_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
SCANS: Final = {
    "claim_candidates": _scan("orders_claim", pages=1500, most=BATCH),
    "begun_candidates": _scan("orders_begun", "orders_pkey", pages=1500, most=BATCH),
    "begun_waits": _scan("orders_begun", pages=20),
    "due_timers": _scan("orders_wake", pages=1500, most=BATCH),
    "next_timer": _scan("orders_wake", pages=20),
    "requests_under_way": _scan("orders_deadline", "steps_pkey", pages=1000),
    "held_reasons": _scan("orders_held", pages=60),
    "release_held": _scan("orders_held", "orders_pkey", pages=3000, reason="agent:a1", most=64),
    "orders_with_commands": _scan(
        "commands_waiting_by_age", "orders_client_order_id_key", pages=1200, after=0, most=BATCH
    ),
    "claim_replay": _scan("dead_letters_replay", "dead_letters_pkey", pages=60, lease_seconds=10.0),
    "count_open_dead_letters": _scan("dead_letters_open", pages=600),
    "recovery_outlook": _scan("orders_begun", "orders_deadline", "instances_pkey", pages=600, most=1000),
    "recovery_lag": _scan("orders_deadline", pages=20),
    "take_due_replies": _scan(
        "inbox_reply_due", "inbox_pkey", "orders_pkey", pages=1500, most=50, lease_seconds=10.0
    ),
    "purgeable_orders": _scan("orders_purgeable", "inbox_pkey", pages=1000, default_days=None, most=100),
    "lock_forgettable": _scan("orders_purged", pages=600, seconds=90 * 86_400.0, most=100),
    "lock_documents_left": _scan("orders_document_left", pages=300, most=100),
    "count_supervisors": _scan("instances_pkey", pages=20),
    "lease_outbox": _scan("outbox_lease", "outbox_pkey", pages=1500, most=50, lease_seconds=10.0),
}
_WAITING = ("transitions_default_pkey", "aged_orders_pkey")
AGED: Final = {
    "aged_unclaimed": _scan("orders_claim", *_WAITING, pages=5000, key="client-05", rank=0, no=0, most=500),
    "aged_held": _scan("orders_held", *_WAITING, pages=5000, key="", rank=0, no=0, most=500),
}
EXPIRED: Final = _scan("orders_deadline", pages=300, grace_seconds=1.0, after=_LONG_AGO, after_no=0, most=100)


@pytest.fixture(scope="module")
def aged_url(server_set: ServerSet) -> Iterator[str]:
    """A database of a million finished orders, for all tests of this file."""
    with server_set.database() as url:
        blocking(lambda: aged.fill(url))
        yield url


@pytest.fixture
async def pinned(aged_url: str) -> AsyncIterator[asyncpg.Connection]:
    """As a service connects: with the plans of the services."""
    opened = await session.connect(Settings(database_url=aged_url, database_schema=SCHEMA), "test")
    yield opened
    opened.terminate()


@pytest.fixture
async def plain(aged_url: str) -> AsyncIterator[asyncpg.Connection]:
    """As anybody connects: what the planner chooses by itself."""
    opened = await asyncpg.connect(aged_url, server_settings={"search_path": SCHEMA})
    yield opened
    opened.terminate()


async def _holds(connection: asyncpg.Connection, name: str, scan: Scan) -> None:
    plan = await plan_of(connection, name, scan.values)
    assert plan.scanned_whole <= SMALL, plan.text
    assert plan.indexes <= scan.indexes, plan.text
    assert plan.pages <= scan.pages, f"{plan.pages} pages\n{plan.text}"


@pytest.mark.parametrize("name", SCANS)
async def test_looking_for_work_reads_only_what_is_alive(pinned: asyncpg.Connection, name: str) -> None:
    await _holds(pinned, name, SCANS[name])


@pytest.mark.parametrize("name", SCANS)
async def test_looking_for_work_needs_no_pinned_plan(plain: asyncpg.Connection, name: str) -> None:
    await _holds(plain, name, SCANS[name])


async def test_f33_the_scan_for_expired_orders_reads_a_page_of_them_and_no_more(
    pinned: asyncpg.Connection, plain: asyncpg.Connection
) -> None:
    await _holds(pinned, "expired_orders", EXPIRED)
    await _holds(plain, "expired_orders", EXPIRED)


READ = ("orders_pkey", "steps_pkey", "order_documents_pkey", "commands_waiting")


@pytest.mark.parametrize("name", AGED)
async def test_a_page_of_orders_that_wait_is_read_by_key(pinned: asyncpg.Connection, name: str) -> None:
    await _holds(pinned, name, AGED[name])


async def test_a_batch_is_locked_read_and_written_by_key(pinned: asyncpg.Connection) -> None:
    rows = await pinned.fetch(
        "select no, history from orders where locked_by is not null order by no limit $1", BATCH
    )
    nos = [row["no"] for row in rows]
    await _holds(pinned, "lock_orders", _scan("orders_pkey", pages=3000, nos=nos))
    await _holds(pinned, "read_orders", _scan(*READ, pages=4000, nos=nos))
    written = _scan("orders_pkey", "outbox_pkey", pages=40 * BATCH, **_decisions(rows))
    await _holds(pinned, "write_decisions", written)


PURGE = (
    "orders_pkey", "steps_pkey", "inbox_pkey", "aged_orders_pkey", "transitions_default_pkey",
    "order_documents_pkey",
)  # fmt: skip


async def test_a_batch_is_purged_and_forgotten_by_key(pinned: asyncpg.Connection) -> None:
    due = await pinned.fetch(
        "select no, ended_at, client, order_id from orders where ended_at is not null and purged_at is null"
        " order by no limit $1",
        BATCH,
    )
    nos = [row["no"] for row in due]
    at = [row["ended_at"] for row in due]
    keys = {"clients": [row["client"] for row in due], "order_ids": [row["order_id"] for row in due]}
    await _holds(pinned, "lock_purgeable", _scan("orders_pkey", pages=3000, nos=nos, ended_at=at))
    purged = _scan(*PURGE, pages=40 * BATCH, nos=nos, who="test", elsewhere=False)
    await _holds(pinned, "purge_orders", purged)
    await _holds(pinned, "forget_orders", _scan(*PURGE, pages=40 * BATCH, nos=nos))
    await _holds(pinned, "delete_documents", _scan(*PURGE, pages=10 * BATCH, **keys))


def _decisions(rows: list[asyncpg.Record]) -> dict[str, Any]:
    """Every order of the batch ends, with a step and a history row, and a batch of outbox rows goes."""
    count, now = len(rows), datetime.now(UTC)
    nos, histories = [row["no"] for row in rows], [row["history"] for row in rows]
    orders: dict[str, Any] = {
        "nos": nos, "history_before": histories, "states": ["processed"] * count, "locked_by": [None] * count,
        "fences": [1] * count, "attempts": [1] * count, "steps": [1] * count, "sent_at": [now] * count,
        "complete_by": [None] * count, "wake_at": [None] * count, "retries": [0] * count,
        "not_before": [None] * count, "held_by": [None] * count, "held_at": [None] * count,
        "paused_at": [None] * count, "paused_by": [None] * count, "cancel_requested": [False] * count,
        "failure_counts": [0] * count, "unbegun_counts": [0] * count, "sequences": [4] * count,
        "histories": [history + 1 for history in histories], "told_retrying": [False] * count,
        "told_held": [False] * count, "ended_at": [now] * count, "budgets": [30] * count,
    }  # fmt: skip
    steps: dict[str, Any] = {
        "step_orders": nos, "step_nos": [1] * count, "step_attempts": [1] * count,
        "step_states": ["completed"] * count, "calls": [1] * count, "effects": ["certain"] * count,
        "results": ["{}"] * count, "errors": [None] * count, "undo_states": [None] * count,
        "undo_tries": [0] * count, "undo_generations": [0] * count, "undo_errors": [None] * count,
        "step_generations": [0] * count, "by_hands": [False] * count, "waits_left": [None] * count,
        "undo_calls": [0] * count, "calls_upto": [3] * count, "undo_limits": [None] * count,
        "undo_attempts": [0] * count,
        "undo_sent_at": [None] * count, "undo_complete_by": [None] * count, "undo_wake_at": [None] * count,
        "undo_retries": [0] * count,
        "led_to": [None] * count, "asking": [False] * count, "progress": [None] * count,
    }  # fmt: skip
    history: dict[str, Any] = {
        "log_orders": nos, "ns": [history + 1 for history in histories], "ats": [now] * count,
        "from_states": ["processing"] * count, "to_states": ["processed"] * count, "whys": ["done"] * count,
        "log_steps": [None] * count, "statuses": ["completed"] * count, "log_sequences": [4] * count,
        "accounts": [None] * count,
    }  # fmt: skip
    riders: dict[str, Any] = {
        "who": "test", "touched_by": uuid4(), "refs": "[]", "lease_seconds": 10.0, "opened": -count,
        "confirmed": list(range(1, 51)),
    }  # fmt: skip
    return orders | steps | history | riders
