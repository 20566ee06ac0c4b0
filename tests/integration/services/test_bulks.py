"""Many orders moved at once on real servers: at a rate, once each, whoever is killed or comes beside."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

import pytest

from tests.integration.services.workbench import Workbench
from tests.waiting import eventually
from triumvir.client import Order
from triumvir.store import bulk_run, bulks
from triumvir.store.bulk_run import Pace, Progress
from triumvir.store.bulks import Bulk, Filter
from triumvir.store.operators import ask_move

BY = "operator:ann"


async def halted(bench: Workbench, count: int, *behaviours: str) -> list[Order]:
    """Orders of a client of their own that rest in `error`."""
    orders = [await bench.submit("trio-halt", {"b": list(behaviours)}) for _ in range(count)]
    for order in orders:
        await bench.until_state(order.order_id, "error", within=60)
    return orders


async def selected(bench: Workbench, orders: list[Order]) -> Bulk:
    """Those alone: what other tests left resting is taken out again."""
    bulk = await bulks.select(
        bench.db, "retry", Filter(client=bench.account.name, workflow="trio-halt"), who=BY, reason="INC-1"
    )
    ids = [order.order_id for order in orders]
    await bench.db.execute(
        "delete from bulk_orders where bulk = $1 and order_id <> all($2::text[])", bulk.id, ids
    )
    return bulk


async def run(bench: Workbench, bulk: Bulk, **pace: float) -> Progress:
    seen = [progress async for progress in bulk_run.run(bench.db, bulk, BY, Pace(**{"rate": 1000.0, **pace}))]
    return seen[-1]


async def moves(bench: Workbench, bulk: Bulk) -> list[int]:
    """How often each order was moved by it."""
    rows = await bench.db.fetch(
        "select count(t.why) as moves from bulk_orders b"
        " left join transitions t on t.no = b.no and position($2 in t.why) > 0 where b.bulk = $1 group by b.no",
        bulk.id,
        bulk.mark,
    )
    return [row["moves"] for row in rows]


async def test_all_that_was_selected_is_moved_once_and_who_did_it_stands_in_the_history(
    bench: Workbench,
) -> None:
    orders = await halted(bench, 6, "permanent", "ok")
    bulk = await selected(bench, orders)
    last = await run(bench, bulk)
    assert (last.stopped, last.tally.done, last.tally.refused) == (None, 6, 0)
    for order in orders:
        detail = await bench.until_state(order.order_id, "processed", within=60)
        assert f"retried by {BY} {bulk.mark}: INC-1" in [row.why for row in detail.history]
    again = await run(bench, bulk)
    assert (again.stopped, again.tally.settled, again.tally.settled_since) == (None, 6, 0)
    assert await moves(bench, bulk) == [1] * 6


async def test_an_order_that_moved_on_since_it_was_selected_is_left_alone(bench: Workbench) -> None:
    orders = await halted(bench, 3, "permanent", "permanent", "ok")
    bulk = await selected(bench, orders)
    moved = await bench.detail(orders[0].order_id)
    await ask_move(
        bench.db,
        bench.account.name,
        orders[0].order_id,
        "retry",
        who="bob",
        reason=None,
        fence=moved.order.fence,
    )

    async def rests_again() -> bool:
        order = (await bench.detail(orders[0].order_id)).order
        return order.state == "error" and order.fence > moved.order.fence

    await eventually(rests_again, within=60, what="it rests again")
    last = await run(bench, bulk)
    assert last.tally.refused == 1
    (failure,) = [
        row for row in await bulks.look(bench.db, "failures", bulk, most=9) if row["outcome"] == "refused"
    ]
    assert failure["order_id"] == orders[0].order_id
    assert "has moved on" in failure["detail"]


async def test_it_stops_where_too_much_fails_and_goes_on_when_asked_to(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_run, "LEAST_JUDGED", 4)
    monkeypatch.setattr(bulks, "MOST_WAITING", 4)  # so that it sees what comes of some before it asks for all
    orders = await halted(bench, 8, "permanent", "ok")
    bulk = await selected(bench, orders)
    moved_on = "update bulk_orders set fence = -7 where bulk = $1"  # as if all had, since they were selected
    await bench.db.execute(moved_on, bulk.id)
    last = await run(bench, bulk)
    assert last.stopped is not None
    assert "failed, more than 20%" in last.stopped
    assert last.tally.unasked > 0
    assert (await bulks.log(bench.db, bulk))[-1].what == "stopped"
    last = await run(bench, bulk, stop_at=1.0)
    assert (last.stopped, last.tally.refused) == (None, 8)
    assert await moves(bench, bulk) == [1] * 8, "each was refused once"


async def cli(bench: Workbench, bulk: Bulk, rate: float) -> asyncio.subprocess.Process:
    settings = bench.suite.settings
    env = {
        **os.environ,
        "TRIUMVIR_DATABASE_URL": settings.database_url,
        "TRIUMVIR_DATABASE_SCHEMA": settings.database_schema,
    }
    command = ("orders", "bulk", "run", bulk.id, "--yes", "--json", "--rate", str(rate), "--stop-at", "100")
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "triumvir.cli", *command, env=env, stdout=asyncio.subprocess.PIPE
    )


async def test_two_operators_and_a_kill_in_the_middle_move_every_order_once(bench: Workbench) -> None:
    orders = await halted(bench, 12, "permanent", "ok")
    bulk = await selected(bench, orders)
    victim = await cli(bench, bulk, rate=0.5)  # slow enough to be found in the middle

    async def is_in_the_middle() -> bool:
        tally = await bulks.tally(bench.db, bulk)
        return tally.unasked < 12

    await eventually(is_in_the_middle, within=120, what="some are asked for")
    victim.send_signal(signal.SIGKILL)
    assert await victim.wait() == -signal.SIGKILL
    both = [await cli(bench, bulk, rate=50) for _ in range(2)]
    told = [await one.communicate() for one in both]
    assert [one.returncode for one in both] == [0, 0]
    ended: list[dict[str, Any]] = [json.loads(out)["run"]["tally"] for out, _ in told]
    assert [(tally["done"], tally["unasked"], tally["waiting"]) for tally in ended] == [(12, 0, 0)] * 2
    assert await moves(bench, bulk) == [1] * 12
    for order in orders:
        await bench.until_state(order.order_id, "processed", within=60)
        assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "b", "c"]
