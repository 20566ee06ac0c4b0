"""What operators did is forgotten after its retention, in small steps, and never while somebody is at it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.integration.supervision.conftest import Desk
from triumvir.settings import Settings
from triumvir.store.session import Session
from triumvir_supervisor import upkeep
from triumvir_supervisor.upkeep import Upkeep

DAYS = 24 * 3600
EACH = 7


async def tidy(desk: Desk) -> None:
    """One step of a supervisor's upkeep that keeps what operators did for 30 days."""
    settings = Settings(**{**desk.settings.model_dump(), "operator_log_retention": 30 * DAYS})
    session = Session(settings, "upkeep")

    async def nothing() -> None:
        """There are no dead letters to watch."""

    await Upkeep(session, settings, uuid4(), nothing).step()
    await session.close()


async def add_bulk(desk: Desk, name: str, days: int, *events: int) -> None:
    """One that was made so many days ago; ``events``: days ago, of its log."""
    await desk.db.execute(
        "insert into bulks (id, action, who, reason, filter, orders, at)"
        " values ($1, 'retry', 'me', 'why', '{}', $2, now() - make_interval(days => $3))",
        name, EACH, days,
    )  # fmt: skip
    await desk.db.execute(
        "insert into bulk_orders (bulk, no, client, order_id, workflow, version, state, fence, history)"
        " select $1, n, 'shop', 'o' || n, 'solo', 1, 'error', 1, 1 from generate_series(1, $2) n",
        name, EACH,
    )  # fmt: skip
    for ago in (days, *events):
        await desk.db.execute(
            "insert into bulk_log (bulk, at, who, what) values ($1, now() - make_interval(days => $2), 'me', 'begun')",
            name, ago,
        )  # fmt: skip


async def of_bulks(desk: Desk, table: str) -> dict[str, int]:
    rows = await desk.db.fetch(f"select bulk, count(*) from {table} group by 1")
    return {row["bulk"]: row["count"] for row in rows}


async def test_bulks_that_nobody_touched_for_the_retention_are_forgotten(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MOST_FORGOTTEN", 3)
    await add_bulk(desk, "a-old", 40, 31)
    await add_bulk(desk, "b-taken-up-again", 40, 29)
    await add_bulk(desk, "c-old-too", 100)
    await add_bulk(desk, "d-new", 1)
    kept = {"b-taken-up-again": EACH, "d-new": EACH}
    await tidy(desk)
    ids: Any = await desk.db.fetch("select id from bulks order by id")
    assert [row["id"] for row in ids] == list(kept), "first the bulk, so that nobody runs the half of it"
    assert await of_bulks(desk, "bulk_log") == {"b-taken-up-again": 2, "d-new": 1}
    assert sum((await of_bulks(desk, "bulk_orders")).values()) == 4 * EACH - 3, "in small steps"
    for _ in range(2 * EACH // 3):
        await tidy(desk)
    assert await of_bulks(desk, "bulk_orders") == kept


async def test_lines_of_the_log_of_pauses_are_forgotten_and_pauses_are_not(desk: Desk) -> None:
    await desk.db.execute(
        "insert into pause_log (at, scope, name, version, what, who)"
        " select now() - make_interval(days => d), 'workflow', 'w' || d, 0, 'paused', 'me'"
        " from unnest(array[60, 31, 29, 0]) d"
    )
    await desk.db.execute(
        "insert into pauses (scope, name, who, reason, at)"
        " values ('workflow', 'w60', 'me', 'why', now() - interval '60 d')"
    )
    await tidy(desk)
    assert [row["name"] for row in await desk.db.fetch("select name from pause_log order by n")] == [
        "w29",
        "w0",
    ]
    assert await desk.db.fetchval("select count(*) from pauses") == 1


async def test_who_looked_at_confidential_data_is_forgotten_after_the_retention(desk: Desk) -> None:
    await desk.db.execute(
        "insert into reveal_log (at, who, command, client, order_id, workflow)"
        " select now() - make_interval(days => d), 'me', 'orders show', 'shop', 'o' || d, 'w'"
        " from unnest(array[60, 31, 29, 0]) d"
    )
    await tidy(desk)
    rows = await desk.db.fetch("select order_id from reveal_log order by n")
    assert [row["order_id"] for row in rows] == ["o29", "o0"]
