"""What operations return and raise, and what that means for their orders."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.integration.services.workbench import Workbench
from triumvir.errors import OrderHalted


async def _halts(bench: Workbench, workflow: str, payload: dict[str, Any], within: float = 15) -> str:
    order = await bench.submit(workflow, payload)
    with pytest.raises(OrderHalted) as caught:
        await order.result(timeout=within)
    return str(caught.value)


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("huge", "has 300002 bytes, 262144 are allowed; return a reference to it"),
        ("nul", "holds a NUL character"),
        ("surrogate", "surrogate"),
        ("big-number", "beyond an IEEE double"),
        ("object", "Unable to serialize unknown type"),
    ],
)
async def test_f55_a_result_that_cannot_be_kept_is_a_permanent_failure_after_one_call(
    bench: Workbench, returned: str, says: str
) -> None:
    order = await bench.submit("trio", {"b": returned})
    statuses = [status async for status in order.statuses()]
    assert [status.status for status in statuses] == ["received", "compensating", "compensated"]
    assert "the result of lab/b" in (statuses[1].detail or "")
    assert says in (statuses[1].detail or "")
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "un-b", "un-a"]


async def test_a_result_of_nothing_is_a_result(bench: Workbench) -> None:
    order = await bench.submit("solo", {"a": "null"})
    assert await order.result(timeout=60) is None


async def test_a_payload_that_does_not_fit_the_operation_is_refused_before_any_call(bench: Workbench) -> None:
    said = await _halts(bench, "typed", {"amount": "many"})
    assert "the payload does not fit lab/typed: amount: Input should be a valid integer" in said
    order = await bench.submit("typed", {"amount": 21})
    assert await order.result(timeout=60) == {"amount": 42}


@pytest.mark.parametrize(
    ("workflow", "step", "behaviour", "says"),
    [
        ("solo", "a", "value-error", "ValueError: odd"),
        ("solo", "a", "system-exit", "SystemExit: 3"),
        ("solo", "a", "own-cancel", "CancelledError"),
        ("plain", "plain", "system-exit", "SystemExit: 3"),
        ("plain", "plain", "stop-iteration", "StopIteration"),
        ("plain", "plain", "value-error", "ValueError: odd"),
    ],
)
async def test_whatever_an_operation_raises_fails_its_own_order_and_no_other(
    bench: Workbench, workflow: str, step: str, behaviour: str, says: str
) -> None:
    neighbour = await bench.submit("solo", {"a": "gate"})
    await bench.until_called(neighbour.order_id, "a")
    order = await bench.submit(workflow, {step: behaviour})
    with pytest.raises(OrderHalted, match=says):
        await order.result(timeout=60)
    assert len(bench.calls(order.order_id)) == 6, "three calls for a request, two attempts"
    bench.open_gate(neighbour.order_id)
    await neighbour.result(timeout=60)
    assert {call.attempt for call in bench.calls(neighbour.order_id)} == {1}
    assert all(service.exit_code() is None for service in bench.suite.running)


async def test_an_unexpected_error_may_have_had_an_effect_and_is_undone(bench: Workbench) -> None:
    order = await bench.submit("trio", {"b": "value-error"})
    assert (await bench.told(order))[-1] == "compensated"
    undone = [call.step for call in bench.calls(order.order_id) if call.step.startswith("un-")]
    assert undone == ["un-b", "un-a"]


async def test_plain_functions_run_in_threads(bench: Workbench) -> None:
    order = await bench.submit("plain")
    assert await order.result(timeout=60) == "done"
    (call,) = bench.calls(order.order_id)
    assert call.thread != "MainThread"


async def test_f57_a_function_that_computes_for_long_stops_neither_leases_nor_neighbours(
    bench: Workbench,
) -> None:
    busy = [await bench.submit("busy", {"seconds": 2.0}) for _ in range(2)]
    neighbour = await bench.submit("trio")
    await neighbour.result(timeout=60)
    for order in busy:
        assert await order.result(timeout=60) > 0
        assert (await bench.detail(order.order_id)).order.attempt == 1


async def _booked(bench: Workbench, order_id: str) -> int:
    query = "select count(*) from public.bookings where key like '%/' || $1 || '/book/do/%'"
    count: int = await bench.db.fetchval(query, order_id)
    return count


async def test_an_effect_in_the_steps_own_transaction_is_there_with_the_result(bench: Workbench) -> None:
    order = await bench.submit("book")
    assert await order.result(timeout=60) == "booked"
    assert await _booked(bench, order.order_id) == 1


@pytest.mark.parametrize("behaviour", ["raise-inside", "raise-after"])
async def test_an_effect_is_rolled_back_when_its_operation_raises(bench: Workbench, behaviour: str) -> None:
    order = await bench.submit("book", {"book": [behaviour, behaviour, "ok"]})
    assert await order.result(timeout=60) == "booked"
    assert len(bench.calls(order.order_id)) == 3
    assert await _booked(bench, order.order_id) == 1


async def test_an_effect_of_an_attempt_that_was_fenced_off_is_rolled_back(bench: Workbench) -> None:
    order = await bench.submit("book", {"book": ["fence", "ok"]})
    assert await order.result(timeout=60) == "booked"
    assert [call.attempt for call in bench.calls(order.order_id)] == [1, 2]
    assert await _booked(bench, order.order_id) == 1


async def test_a_transaction_entered_twice_is_an_error_that_says_so(bench: Workbench) -> None:
    order = await bench.submit("book", {"book": "nested"})
    with pytest.raises(OrderHalted, match="entered twice in one call; do all writes in one block"):
        await order.result(timeout=60)
    assert await _booked(bench, order.order_id) == 0
    (step,) = (await bench.detail(order.order_id)).steps
    assert (len(bench.calls(order.order_id)), step.effect) == (1, "unknown")


async def test_many_transactions_at_once_take_turns_on_few_connections(bench: Workbench) -> None:
    orders = [await bench.submit("book") for _ in range(30)]
    assert await asyncio.gather(*(order.result(timeout=60) for order in orders)) == ["booked"] * 30
    backends = "select count(*) from pg_stat_activity where application_name = 'triumvir operation'"
    assert await bench.db.fetchval(f"{backends} and datname = current_database()") <= 8


_LEFT_BEHIND = [
    "set app.tenant = 'one'",
    "set lock_timeout = '1s'",
    "select pg_advisory_lock(4711)",
    "create temp table scratch (k int)",
    "prepare mine as select 1",
    "listen something",
    "declare left_open cursor with hold for select 1",
    "set search_path = triumvir, pg_temp",
]


@pytest.mark.parametrize("sql", [_LEFT_BEHIND, ["set default_transaction_read_only = on"]])
async def test_what_an_operation_sets_for_its_session_does_not_reach_the_next_order(
    bench: Workbench, sql: list[str]
) -> None:
    clean = await (await bench.submit("session")).result(timeout=60)
    await (await bench.submit("session", {"sql": sql})).result(timeout=60)
    found = await asyncio.gather(*[(await bench.submit("session")).result(timeout=60) for _ in range(10)])
    assert [after[:-1] for after in found] == [clean[:-1]] * 10
    assert clean[-1] in [after[-1] for after in found], "the connection was kept"


async def test_a_connection_with_a_type_codec_of_an_operation_is_not_used_again(bench: Workbench) -> None:
    changed = await (await bench.submit("session", {"codec": True})).result(timeout=60)
    found = await asyncio.gather(*[(await bench.submit("session")).result(timeout=60) for _ in range(10)])
    assert changed[-2] == {}
    assert [after[-2] for after in found] == ["{}"] * 10
