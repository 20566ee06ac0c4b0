"""Definitions and operations change under orders that live: F49 and F50."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.integration.services.workbench import Workbench, new_id
from tests.waiting import eventually
from triumvir.client import Order
from triumvir.workflow import Step, Workflow

_LONG = timedelta(minutes=5)  # what waits at a gate is not timed out by a slow machine
_RENEWED = "tests.integration.services.renewed"


def _workflow(name: str, version: int, *steps: str) -> Workflow:
    made = [
        Step(step, agent="lab", operation=step, undo=f"un-{step}", complete_within=_LONG) for step in steps
    ]
    return Workflow(name, version, made, on_error="compensate")


@pytest.fixture
def name() -> str:
    """Of a workflow that no other test knows."""
    return f"versioned-{new_id()}"


async def _changed_under(bench: Workbench, name: str, last: str) -> tuple[Order, Order]:
    """An order that is at step b while a version without b is deployed, and one that comes after that."""
    await asyncio.to_thread(bench.suite.apply, [_workflow(name, 1, "a", "b", "c")])
    older = await bench.submit(name, {"b": "gate", "c": last})
    await bench.until_called(older.order_id, "b")
    await asyncio.to_thread(bench.suite.apply, [_workflow(name, 2, "c", "a")])
    newer = await bench.submit(name)
    assert (await newer.result(timeout=60))["step"] == "a"
    bench.open_gate(older.order_id)
    return older, newer


async def test_f49_an_order_in_flight_goes_on_by_the_definition_that_it_began_with(
    bench: Workbench, name: str
) -> None:
    older, newer = await _changed_under(bench, name, "ok")
    assert (await older.result(timeout=60))["known"] == ["a", "b"]
    assert [call.step for call in bench.calls(older.order_id)] == ["a", "b", "c"]
    assert [call.step for call in bench.calls(newer.order_id)] == ["c", "a"]
    versions = [(await bench.detail(order.order_id)).order.version for order in (older, newer)]
    assert versions == [1, 2]


async def test_an_order_is_pinned_to_what_was_applied_in_the_moment_before(
    bench: Workbench, name: str
) -> None:
    """The submitter goes by what it read of the workflows a moment ago, and the write of the order compares it."""
    for version in range(1, 6):
        bench.suite.apply([Workflow(name, version, [Step("a", agent="lab", operation="a", undo="un-a")])])
        for _ in range(2):
            order = await bench.submit(name)
            assert await bench.told(order) == ["received", "completed"]
            assert (await bench.detail(order.order_id)).order.version == version


async def test_f49_an_order_in_flight_is_undone_by_the_definition_that_it_began_with(
    bench: Workbench, name: str
) -> None:
    older, _ = await _changed_under(bench, name, "permanent")
    assert (await bench.told(older))[-1] == "compensated"
    assert [call.step for call in bench.calls(older.order_id)] == ["a", "b", "c", "un-b", "un-a"]


@pytest.fixture
def fresh(bench: Workbench, name: str) -> Iterator[str]:
    """A workflow whose second step only the newer release of its agent can do."""
    steps = [
        Step(step, agent="renewed", operation=step, complete_within=_LONG) for step in ("known", "fresh")
    ]
    bench.suite.apply([Workflow(name, 1, steps)])
    before = list(bench.suite.running)
    yield name
    for service in [each for each in bench.suite.running if each not in before]:
        service.stop()
        bench.suite.running.remove(service)


async def test_f50_an_operation_that_no_agent_knows_yet_holds_the_order_until_one_offers_it(
    bench: Workbench, fresh: str
) -> None:
    await asyncio.to_thread(bench.suite.start, "agent", f"{_RENEWED}:older")
    orders = [await bench.submit(fresh) for _ in range(5)]

    async def all_held() -> bool:
        held = "select count(*) from orders where held_by = 'operation:renewed/fresh'"
        return bool(await bench.db.fetchval(held) == len(orders))

    await eventually(all_held, what="the orders held for the operation")
    await asyncio.to_thread(
        bench.suite.start, "agent", f"{_RENEWED}:newer"
    )  # the older one runs on beside it
    for order in orders:
        assert await order.result(timeout=60) == "fresh"
        detail = await bench.detail(order.order_id)
        assert detail.order.failure_count == 0, "a deploy burns nothing"
        told = await bench.told(order)
        assert (told[0], told.count("held"), told[-1]) == ("received", 1, "completed")
