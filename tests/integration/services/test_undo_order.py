"""Undos at the same time and by rank, on real servers: each once, what fails is visible, and resuming goes on there."""

from __future__ import annotations

from collections import Counter

from tests.integration.services.test_operators import move
from tests.integration.services.workbench import Workbench


def undos(bench: Workbench, order_id: str) -> list[str]:
    return [call.step for call in bench.calls(order_id) if call.step.startswith("un-")]


async def test_f39_in_parallel_an_undo_that_fails_keeps_no_other_back_and_is_resumed_alone(
    bench: Workbench,
) -> None:
    order = await bench.submit("fan", {"plain": "permanent", "un-b": ["permanent", "ok"]})
    detail = await bench.until_state(order.order_id, "compensation_failed", within=60)
    assert [step.undo_state for step in detail.steps] == ["undone", "undo_failed", "undone", None]
    await move(bench, order, "resume")
    await bench.until_state(order.order_id, "compensated", within=60)
    assert Counter(undos(bench, order.order_id)) == {"un-a": 1, "un-b": 2, "un-c": 1}


async def test_f39_by_rank_equal_ones_are_undone_and_later_ones_wait_for_the_one_that_failed(
    bench: Workbench,
) -> None:
    order = await bench.submit("ranks", {"plain": "permanent", "un-c": ["permanent", "ok"]})
    detail = await bench.until_state(order.order_id, "compensation_failed", within=60)
    assert [step.undo_state for step in detail.steps] == [None, "undone", "undo_failed", None]
    await move(bench, order, "resume")
    await bench.until_state(order.order_id, "compensated", within=60)
    assert Counter(undos(bench, order.order_id)) == {"un-a": 1, "un-b": 1, "un-c": 2}
    assert undos(bench, order.order_id)[-1] == "un-a"


async def test_undos_at_the_same_time_do_not_wait_for_each_other(bench: Workbench) -> None:
    order = await bench.submit("fan", {"plain": "permanent", "un-c": "gate"})
    await bench.until_called(order.order_id, "un-a")
    await bench.until_called(order.order_id, "un-b")
    bench.open_gate(order.order_id)
    await bench.until_state(order.order_id, "compensated", within=60)
    assert set(undos(bench, order.order_id)) == {"un-a", "un-b", "un-c"}
