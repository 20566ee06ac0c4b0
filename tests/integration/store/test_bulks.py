"""Bulks in the store: what is selected stays selected, and each order of it is asked for once, whoever runs it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from tests.integration.store.rows import hold, make_orders
from triumvir.errors import ConfigurationError
from triumvir.store import bulks
from triumvir.store.bulks import Bulk, BulkAction, Filter
from triumvir.store.operators import apply_workflow
from triumvir.workflow import Step, Workflow

TRIO = Workflow("trio", 1, [Step(name, agent="lab", operation=name) for name in ("a", "b", "c")])
WHO = "operator:ann"


async def halted(
    connection: asyncpg.Connection, *ids: str, step: int = 1, error: str = "no luck"
) -> list[int]:
    """Orders in `error` at a step that failed so."""
    nos = await make_orders(connection, list(ids))
    await connection.execute(
        "update orders set state = 'error', step = $2, fence = 7 where no = any($1)", nos, step
    )
    await connection.execute(
        "insert into steps (no, step_no, attempt, state, error)"
        " select no, $2, 1, 'failed', $3 from unnest($1::bigint[]) no",
        nos,
        step,
        error,
    )
    return nos


async def select(connection: asyncpg.Connection, action: BulkAction = "retry", **chosen: Any) -> Bulk:
    return await bulks.select(connection, action, Filter(**chosen), who=WHO, reason="INC-1", page=2)


async def ids(connection: asyncpg.Connection, bulk: Bulk) -> list[str]:
    rows = await connection.fetch("select order_id from bulk_orders where bulk = $1 order by no", bulk.id)
    return [row["order_id"] for row in rows]


async def test_each_filter_narrows_what_is_selected(connection: asyncpg.Connection) -> None:
    await apply_workflow(connection, TRIO)
    await halted(connection, "1", "2", error="the BANK is down: 503")
    await halted(connection, "3", step=2)
    nos = await make_orders(connection, ["4"])
    await hold(connection, nos, "agent:lab")
    await connection.execute(
        "update orders set received_at = received_at - interval '1 hour' where order_id = '1'"
    )
    assert await ids(connection, await select(connection)) == ["1", "2", "3"]
    assert await ids(connection, await select(connection, error="bank IS down")) == ["1", "2"]
    assert await ids(connection, await select(connection, error="ban_")) == []
    assert await ids(connection, await select(connection, step="b")) == ["3"]
    assert await ids(connection, await select(connection, older_than=1800.0)) == ["1"]
    assert await ids(connection, await select(connection, limit=2)) == ["1", "2"]
    assert await ids(connection, await select(connection, workflow="other")) == []
    assert await ids(connection, await select(connection, client="shop-b")) == []
    assert await ids(connection, await select(connection, version=2)) == []
    assert await ids(connection, await select(connection, "pause", held_by="agent:")) == ["4"]
    assert await ids(connection, await select(connection, "cancel", states=("pending",))) == ["4"]


async def test_only_what_is_paused_is_selected_to_go_on(connection: asyncpg.Connection) -> None:
    await make_orders(connection, ["1", "2"])
    await connection.execute("update orders set paused_at = now(), paused_by = 'ann' where order_id = '1'")
    assert await ids(connection, await select(connection, "unpause")) == ["1"]
    assert await ids(connection, await select(connection, "pause")) == ["2"]


async def test_a_state_that_the_action_is_not_for_is_refused_and_nothing_is_kept(
    connection: asyncpg.Connection,
) -> None:
    with pytest.raises(ConfigurationError, match="retry is for orders in error, not in pending"):
        await select(connection, states=("pending",))
    assert await connection.fetchval("select count(*) from bulks") == 0


async def test_what_comes_later_is_not_in_it(connection: asyncpg.Connection) -> None:
    await halted(connection, "1")
    bulk = await select(connection)
    await halted(connection, "2")
    assert (bulk.orders, await ids(connection, bulk)) == (1, ["1"])
    assert (await bulks.find(connection, bulk.id[:4])) == bulk
    for unknown in ("", "%", "nothing"):
        with pytest.raises(ConfigurationError, match="no bulk's id begins"):
            await bulks.find(connection, unknown)


async def test_two_who_run_it_at_once_ask_for_each_order_once_at_one_rate(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    await halted(connection, *map(str, range(10)))
    bulk = await select(connection)
    both = await asyncio.gather(
        *(
            bulks.ask_for_some(one, bulk, who, most=4, rate=0.001)
            for one, who in ((connection, "ann"), (other, "bob"))
        )
    )
    assert sorted(count for count, _ in both) == [0, 4], "the rate is that of both"
    assert all(wait > 0 for _, wait in both)
    await connection.execute("update bulks set next_at = '-infinity'")
    await bulks.ask_for_some(other, bulk, "bob", most=100, rate=1000)
    rows = await connection.fetch("select order_id, kind, data from commands order by order_id")
    assert [row["order_id"] for row in rows] == [str(n) for n in range(10)]
    assert {row["kind"] for row in rows} == {"retry"}
    told = [json.loads(row["data"]) for row in rows]
    assert {(each["fence"], each["reason"]) for each in told} == {(7, "INC-1")}
    assert {each["by"] for each in told} <= {f"{who} (bulk {bulk.id})" for who in ("ann", "bob")}


async def test_no_more_is_asked_for_than_schedulers_keep_up_with(
    connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulks, "MOST_WAITING", 3)
    await halted(connection, *map(str, range(5)))
    bulk = await select(connection)
    assert (await bulks.ask_for_some(connection, bulk, WHO, most=100, rate=1e6))[0] == 3
    await connection.execute("update bulks set next_at = '-infinity'")
    assert await bulks.ask_for_some(connection, bulk, WHO, most=100, rate=1e6) == (0, 0.0)


async def test_what_came_of_each_is_told_by_its_history(connection: asyncpg.Connection) -> None:
    nos = await halted(connection, "done", "refused", "again", "waiting")
    bulk = await select(connection)
    await bulks.ask_for_some(connection, bulk, WHO, most=100, rate=1e6)
    await connection.execute("update commands set taken_at = now() where order_id <> 'waiting'")
    why = {
        nos[0]: f"retried by {WHO} {bulk.mark}: is it refused: no",
        nos[1]: f"retry by {WHO} {bulk.mark} refused: the order has moved on since it was looked at",
        nos[2]: f"retried by {WHO} {bulk.mark}: INC-1",
    }
    for no, text in why.items():
        await connection.execute(
            "insert into transitions (no, n, at, who, from_state, to_state, why)"
            " values ($1, 2, now(), 'test', 'error', 'pending', $2), ($1, 3, now(), 'test', 'pending', 'error', 'x')",
            no,
            text,
        )
    await connection.execute("update orders set state = 'pending' where no = $1", nos[0])
    await connection.execute("update orders set fence = 9 where no = $1", nos[2])
    assert await bulks.settle_some(connection, bulk) == 4
    assert await bulks.settle_some(connection, bulk) == 0
    tally = await bulks.tally(connection, bulk)
    assert (tally.unasked, tally.waiting, tally.done, tally.refused, tally.fell_back) == (0, 1, 1, 1, 1)
    failures = await bulks.look(connection, "failures", bulk, most=10)
    assert [(row["order_id"], row["outcome"], row["detail"]) for row in failures] == [
        ("refused", "refused", why[nos[1]]),
        ("again", "fell_back", "is error again"),
    ]


async def test_a_pause_is_written_so_that_the_release_before_refuses_it(
    connection: asyncpg.Connection,
) -> None:
    await make_orders(connection, ["1"])
    bulk = await select(connection, "pause")
    await bulks.ask_for_some(connection, bulk, WHO, most=1, rate=1)
    row = await connection.fetchrow("select kind, action, data from commands")
    assert row is not None
    assert (row["kind"], row["action"]) == ("retry", "pause")
    members = json.loads(row["data"])
    assert (members["fence"], members["seen"]) == (-1, 0), "the release before compares this with the order's"
