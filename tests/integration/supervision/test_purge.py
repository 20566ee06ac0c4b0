"""Ended orders are purged after their retention: nothing else is, once each, at a rate, and the key outlives them."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from typing import Any, Final

import asyncpg
import pytest

from tests.integration.supervision.conftest import Desk, Supervisor
from triumvir.settings import Settings
from triumvir.store.operators import apply_workflow
from triumvir.store.session import Session
from triumvir.workflow import Step, Workflow
from triumvir_supervisor import purge
from triumvir_supervisor.purge import Purge

STEP: Final = Step("a", agent="lab", operation="a", undo="un-a")
WEEK: Final = Workflow("week", 1, [STEP], retention_days=7)
MONTH: Final = Workflow("week", 2, [STEP], retention_days=30)
STATES: Final = {
    "pending": None, "error": None, "compensation_failed": None, "compensating": None,
    "processed": "completed", "compensated": "compensated", "cancelled": "cancelled", "closed": "closed",
}  # fmt: skip
_INSERT: Final = """
    insert into orders (client, order_id, workflow, version, digest, state, rank, status_queue, sequence, history,
                        attempt, fence, step, trace, budget, received_at, ended_at)
    select 'shop', $1, $2, $3, sha256('x'), $4, 1, 'status.shop', 2, 3, 1, 1, 1, '00-t-s-01', 30, at,
           case when $6 then at end
    from (select now() - make_interval(secs => $5::float8 * 86400) as at) as long_ago returning no
"""
_PARTS: Final = (
    "insert into steps (no, step_no, attempt, state, effect, result) select $1, 1, 1, 'completed', 'certain', 'secret'",
    """insert into inbox (no, step_no, direction, fence, state, complete_by, reply)
       select $1, 1, 'do', 1, 'succeeded', now(), 'secret'""",
    "insert into aged_orders (no, kind, attempt) values ($1, 'held', 1)",
)
_OF_AN_ORDER: Final = ("steps", "inbox", "aged_orders")


class Shelf:
    """Orders of some age, and purges over them."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.db = desk, desk.db
        self.sessions: list[Session] = []

    async def put(
        self, name: str, days: float, *, state: str = "processed", workflow: str = "week", version: int = 1
    ) -> int:
        """One that ended so many days ago, with all that an order can have."""
        no: int = await self.db.fetchval(
            _INSERT, name, workflow, version, state, days, STATES[state] is not None
        )
        told = STATES[state] or "received"
        await self.db.execute(
            "insert into transitions (no, n, at, who, from_state, to_state, why, status, sequence)"
            " select $1, n, now() - interval '100 d', 'x', 'pending', $2, 'secret', case when n <> 2 then $3 end,"
            " case when n <> 2 then (n + 1) / 2 end from generate_series(1, 3) n",
            no, state, told,
        )  # fmt: skip
        await self.db.execute(
            "insert into order_documents (client, order_id, payload, digest)"
            " values ('shop', $1, '{\"a\":\"secret\"}', $2)",
            name, hashlib.sha256(name.encode()).digest(),
        )  # fmt: skip
        for sql in _PARTS:
            await self.db.execute(sql, no)
        return no

    def purge(self, **settings: Any) -> Purge:
        own = Settings(**{**self.desk.settings.model_dump(), "purge_rate": 100_000, **settings})
        self.sessions.append(Session(own, "purge"))
        return Purge(self.sessions[-1], own, "supervisor:test", None)

    async def purged(self) -> set[str]:
        rows = await self.db.fetch("select order_id from orders where purged_at is not null")
        return {row["order_id"] for row in rows}

    async def left(self, no: int) -> Counter[str]:
        """How much there is of an order."""
        found = {
            table: await self.db.fetchval(f"select count(*) from {table} where no = $1", no)
            for table in (*_OF_AN_ORDER, "transitions", "orders")
        }
        return Counter(found)


@pytest.fixture
async def shelf(desk: Desk) -> Any:
    for workflow in (WEEK, MONTH):
        await apply_workflow(desk.db, workflow)
    shelf = Shelf(desk)
    yield shelf
    for session in shelf.sessions:
        await session.close()


@pytest.mark.parametrize("state", STATES)
async def test_only_what_has_ended_is_purged_however_old(shelf: Shelf, state: str) -> None:
    no = await shelf.put("one", 400, state=state)
    await shelf.purge().step()
    ended = STATES[state] is not None
    assert await shelf.purged() == ({"one"} if ended else set())
    assert await shelf.left(no) == (
        Counter(transitions=2, orders=1)
        if ended
        else Counter(steps=1, inbox=1, aged_orders=1, transitions=3, orders=1)
    )


async def test_each_version_keeps_its_orders_for_its_own_time_and_what_says_nothing_for_good(
    shelf: Shelf,
) -> None:
    for days in (6.9, 7.1, 29.9, 30.1):
        await shelf.put(f"week-{days}", days)
        await shelf.put(f"month-{days}", days, version=2)
        await shelf.put(f"solo-{days}", days, workflow="solo")
    await shelf.purge().step()
    wanted = {"week-7.1", "week-29.9", "week-30.1", "month-30.1"}
    assert await shelf.purged() == wanted
    await shelf.purge(retention_days=8).step()
    assert await shelf.purged() == wanted | {"solo-29.9", "solo-30.1"}, "the setting is for those alone"


async def test_of_a_purged_order_its_key_digest_state_and_last_status_stay_and_no_data(shelf: Shelf) -> None:
    no = await shelf.put("one", 8, state="compensated")
    before = await shelf.db.fetchrow("select digest, state, sequence, ended_at from orders")
    await shelf.purge().step()
    assert await shelf.db.fetchrow("select digest, state, sequence, ended_at from orders") == before
    rows = await shelf.db.fetch(
        "select n, why, status, sequence from transitions where no = $1 order by n", no
    )
    assert [tuple(row) for row in rows] == [
        (3, "its data was purged", "compensated", 2),
        (4, "purged", None, None),
    ]
    assert await shelf.db.fetchval("select payload from order_documents") == ""
    for table in ("orders", "transitions", "order_documents", *_OF_AN_ORDER):
        assert await shelf.db.fetchval(f"select count(*) from {table} t where t::text like '%secret%'") == 0


async def test_what_is_paused_is_not_purged_and_hides_nobody(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "MOST", 1)
    for name, days in (("paused", 9), ("other", 8)):
        await shelf.put(name, days)
    await shelf.db.execute("update orders set paused_at = now(), paused_by = 'me' where order_id = 'paused'")
    await shelf.purge().step()
    assert await shelf.purged() == {"other"}


async def test_a_request_that_may_still_be_begun_keeps_its_order_and_what_refuses_it_for_good_stays(
    shelf: Shelf,
) -> None:
    """A re-sent copy may wait in an agent's queue until its deadline; without the row it would be called again."""
    no, other = await shelf.put("long", 8), await shelf.put("fenced", 8)
    await shelf.db.execute("update inbox set complete_by = now() + interval '1 h' where no = $1", no)
    await shelf.db.execute(
        "insert into inbox (no, step_no, direction, fence, state, refuse_upto) values ($1, 2, 'do', 0, 'fenced', 9)",
        other,
    )
    await shelf.purge().step()
    assert await shelf.purged() == {"fenced"}
    assert await shelf.left(other) == Counter(inbox=1, transitions=2, orders=1)
    await shelf.db.execute("update inbox set complete_by = now() where no = $1", no)
    await shelf.purge().step()
    assert await shelf.purged() == {"fenced", "long"}
    await shelf.db.execute("update orders set purged_at = purged_at - interval '91 d'")
    await shelf.purge().step()
    assert await shelf.left(other) == Counter()


async def test_no_more_than_the_rate_and_what_is_left_comes_later(shelf: Shelf) -> None:
    for n in range(5):
        await shelf.put(f"o{n}", 10 + n)
    slow = shelf.purge(purge_rate=2)
    await slow.step()
    assert await shelf.purged() == {"o4", "o3"}, "as much as in its first second, the oldest"
    await shelf.purge().step()
    assert len(await shelf.purged()) == 5


async def test_supervisors_share_the_rate(shelf: Shelf, desk: Desk) -> None:
    others: list[Supervisor] = [await desk.supervisor(f"other {n}") for n in range(4)]
    for n in range(4):
        await shelf.put(f"o{n}", 10 + n)
    await shelf.purge(purge_rate=8).step()
    assert len(await shelf.purged()) == 8 // len(others)


async def test_many_supervisors_at_once_purge_each_order_once(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "MOST", 3)
    for n in range(40):
        await shelf.put(f"o{n}", 10 + n)
    purges = [shelf.purge() for _ in range(4)]
    while len(await shelf.purged()) < 40:
        await asyncio.gather(*(each.step() for each in purges))
    rows = await shelf.db.fetch(
        "select no, count(*) as times from transitions where why = 'purged' group by no"
    )
    assert [row["times"] for row in rows] == [1] * 40
    assert await shelf.db.fetchval("select max(history) from orders") == 4


async def test_an_order_that_somebody_moves_at_the_moment_is_left_alone(shelf: Shelf) -> None:
    """A late success opens it again; whether it is purged is decided anew, by its new end."""
    no = await shelf.put("one", 8, state="compensated")
    await shelf.put("other", 8)
    mover = await asyncpg.connect(
        shelf.desk.settings.database_url, server_settings={"search_path": shelf.desk.settings.database_schema}
    )
    try:
        async with mover.transaction():
            await mover.execute("update orders set state = 'compensating', ended_at = null where no = $1", no)
            await shelf.purge().step()
            assert await shelf.purged() == {"other"}
    finally:
        await mover.close()
    await shelf.purge().step()
    assert await shelf.purged() == {"other"}


async def test_the_database_refuses_every_move_of_a_purged_order(shelf: Shelf) -> None:
    """Also to processes of the release before, which know nothing of it."""
    await shelf.put("one", 8, state="compensated")
    await shelf.purge().step()
    with pytest.raises(asyncpg.CheckViolationError, match="was purged"):
        await shelf.db.execute("update orders set state = 'compensating', ended_at = null")


async def test_a_purged_order_is_forgotten_with_its_document_when_nobody_need_know_its_key(
    shelf: Shelf,
) -> None:
    old, young = await shelf.put("old", 100), await shelf.put("young", 100)
    await shelf.purge(dedupe_days=30).step()
    await shelf.db.execute(
        "update orders set purged_at = purged_at - case order_id when 'old' then interval '31 d'"
        " else interval '29 d' end"
    )
    await shelf.purge(dedupe_days=30).step()
    assert await shelf.left(old) == Counter()
    assert await shelf.left(young) == Counter(transitions=2, orders=1)
    assert [row[0] for row in await shelf.db.fetch("select order_id from order_documents")] == ["young"]
