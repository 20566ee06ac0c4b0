"""Pauses on real servers: orders, workflows and agents stand still, lose nothing by it, and go on where they were."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.integration.services.workbench import Workbench
from tests.waiting import eventually
from triumvir.client import Order
from triumvir.lifecycle import PAUSED, Action
from triumvir.store import pauses
from triumvir.store.operators import ask_cancel, ask_move
from triumvir.store.pauses import Scope
from triumvir.store.reads import OrderDetail, Reads

BY = "operator:ann"


@pytest.fixture
async def paused(bench: Workbench) -> AsyncIterator[Workbench]:
    """Whatever a test paused as a whole goes on after it."""
    yield bench
    await bench.db.execute("delete from pauses")


async def ask(bench: Workbench, order: Order, action: Action, by: str = BY) -> OrderDetail:
    """Asks, and waits until a scheduler has taken it; the order as it is then."""
    await ask_move(bench.db, bench.account.name, order.order_id, action, who=by, reason="INC-1", fence=None)
    await bench.until_cancel_is_taken(order.order_id)
    return await bench.detail(order.order_id)


async def until_held(bench: Workbench, order: Order, reason: str) -> OrderDetail:
    async def look() -> OrderDetail | None:
        found = await Reads(bench.db).order(bench.account.name, order.order_id)
        return found if found is not None and found.order.held_by == reason else None

    found = await eventually(look, within=30, what=f"{order.order_id} held by {reason}")
    assert found is not None
    return found


async def under_way(bench: Workbench, step: str, workflow: str = "trio", **behaviours: str) -> Order:
    """An order whose call for ``step`` waits at the gate."""
    order = await bench.submit(workflow, {step: "gate", **behaviours})
    await bench.until_called(order.order_id, step)
    return order


def steps(bench: Workbench, order: Order) -> list[str]:
    return [call.step for call in bench.calls(order.order_id)]


async def test_a_running_order_is_held_after_its_answer_and_goes_on_where_it_was(bench: Workbench) -> None:
    order = await under_way(bench, "b")
    detail = await ask(bench, order, "pause")
    assert (detail.order.state, detail.order.held_by) == ("processing", None)
    assert detail.order.paused_by == f"{BY}: INC-1"
    bench.open_gate(order.order_id)
    detail = await until_held(bench, order, PAUSED)
    assert (detail.order.state, detail.order.failure_count) == ("pending", 0)
    assert steps(bench, order) == ["a", "b"]
    await ask(bench, order, "unpause", by="operator:bob")
    await bench.until_state(order.order_id, "processed")
    assert steps(bench, order) == ["a", "b", "c"]
    assert (await bench.told(order)).count("held") == 1


async def test_an_order_that_is_undone_stands_still_between_two_undos(bench: Workbench) -> None:
    order = await bench.submit("trio", {"c": "permanent", "un-b": "gate"})
    await bench.until_called(order.order_id, "un-b")
    await ask(bench, order, "pause")
    bench.open_gate(order.order_id)
    detail = await until_held(bench, order, PAUSED)
    assert (detail.order.state, steps(bench, order)) == ("compensating", ["a", "b", "c", "un-b"])
    await ask(bench, order, "unpause")
    await bench.until_state(order.order_id, "compensated")
    assert steps(bench, order) == ["a", "b", "c", "un-b", "un-a"]


async def test_of_two_operators_one_pauses_and_the_other_is_told_so(bench: Workbench) -> None:
    order = await under_way(bench, "a")
    await asyncio.gather(
        *(_ask_alone(bench, order, by) for by in ("operator:ann", "operator:bob")),
    )
    await bench.until_cancel_is_taken(order.order_id)
    detail = await bench.detail(order.order_id)
    whys = [row.why for row in detail.history if "pause" in row.why]
    assert len(whys) == 2
    first = "operator:ann" if detail.order.paused_by == "operator:ann: INC-1" else "operator:bob"
    assert whys[0].startswith(f"paused by {first}: INC-1")
    assert whys[1].endswith(f"it is paused already, by {first}: INC-1")
    bench.open_gate(order.order_id)
    await ask(bench, order, "unpause")
    await bench.until_state(order.order_id, "processed")


async def _ask_alone(bench: Workbench, order: Order, by: str) -> None:
    async with Workbench(bench.suite, bench.account) as own:
        await ask_move(own.db, own.account.name, order.order_id, "pause", who=by, reason="INC-1", fence=None)


async def test_a_pause_that_races_completion_never_doubles_or_strands_an_order(bench: Workbench) -> None:
    orders = [await bench.submit("trio", {}) for _ in range(20)]
    for order in orders:
        await ask_move(bench.db, bench.account.name, order.order_id, "pause", who=BY, reason=None, fence=None)
    for order in orders:
        await ask(bench, order, "unpause")
    for order in orders:
        await bench.until_state(order.order_id, "processed", within=60)
        assert steps(bench, order) == ["a", "b", "c"]


async def pause(bench: Workbench, scope: Scope, name: str) -> None:
    """And until every scheduler must have seen it: an order of it that is new is held."""
    _, is_new = await pauses.pause(bench.db, scope, name, 0, BY, "INC-2")
    assert is_new
    watched = "trio" if scope == "agent" else name

    async def seen() -> bool:
        probe = await bench.submit(watched, {})
        await eventually(lambda: _stands(bench, probe), within=30, what="it ends or is held")
        return (await bench.detail(probe.order_id)).order.held_by == f"pause:{scope}:{name}"

    await eventually(seen, within=60, what=f"{scope} {name} to stand still")


async def _stands(bench: Workbench, order: Order) -> bool:
    found = await Reads(bench.db).order(bench.account.name, order.order_id)
    return found is not None and (found.order.held_by is not None or found.order.ended_at is not None)


async def go_on(bench: Workbench, scope: Scope, name: str) -> None:
    assert await pauses.unpause(bench.db, scope, name, 0, "operator:bob", None) is not None
    reason = f"pause:{scope}:{name}"
    count = "select count(*) = 0 from orders where held_by = $1"
    await eventually(lambda: bench.db.fetchval(count, reason), within=60, what=f"nothing held by {reason}")


async def test_a_paused_workflow_holds_new_and_running_orders_and_no_other_workflow(
    paused: Workbench,
) -> None:
    running = await under_way(paused, "a", "trio-halt")
    await pause(paused, "workflow", "trio-halt")
    new = [await paused.submit("trio-halt", {}) for _ in range(5)]
    paused.open_gate(running.order_id)
    detail = await until_held(paused, running, "pause:workflow:trio-halt")
    assert (detail.order.state, detail.order.failure_count, steps(paused, running)) == ("pending", 0, ["a"])
    assert [(pause.name, pause.reason) for pause in detail.pauses] == [("trio-halt", "INC-2")]
    for order in new:
        await until_held(paused, order, "pause:workflow:trio-halt")
        assert steps(paused, order) == []
    other = await paused.submit("trio", {})
    await paused.until_state(other.order_id, "processed")
    await go_on(paused, "workflow", "trio-halt")
    for order in (running, *new):
        await paused.until_state(order.order_id, "processed", within=60)
        assert steps(paused, order) == ["a", "b", "c"]
        assert (await paused.told(order)).count("held") == 1


async def test_a_paused_agent_is_sent_no_undo_either(paused: Workbench) -> None:
    order = await under_way(paused, "b")
    await pause(paused, "agent", "lab")
    await ask_cancel(paused.db, paused.account.name, order.order_id, BY, None)
    await paused.until_cancel_is_taken(order.order_id)
    paused.open_gate(order.order_id)
    detail = await until_held(paused, order, "pause:agent:lab")
    assert (detail.order.state, steps(paused, order)) == ("compensating", ["a", "b"])
    await go_on(paused, "agent", "lab")
    await paused.until_state(order.order_id, "compensated", within=60)
    assert steps(paused, order) == ["a", "b", "un-b", "un-a"]
