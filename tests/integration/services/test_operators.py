"""An operator's moves on real servers: what rests is moved by command, and only as it was seen."""

from __future__ import annotations

import pytest

from tests.integration.services.workbench import Workbench
from triumvir.client import Order
from triumvir.errors import OrderClosed, OrderHalted
from triumvir.lifecycle import Action
from triumvir.store.operators import ask_move
from triumvir.store.reads import OrderDetail

BY = "operator:ann"


async def move(
    bench: Workbench, order: Order, action: Action, fence: int | None = None, **more: str
) -> OrderDetail:
    """Asks, and waits until a scheduler has taken it; the order as it is then."""
    seen = (await bench.detail(order.order_id)).order.fence if fence is None else fence
    members = {"reason": None, **more}
    await ask_move(bench.db, bench.account.name, order.order_id, action, who=BY, fence=seen, **members)
    await bench.until_cancel_is_taken(order.order_id)
    return await bench.detail(order.order_id)


async def halted(bench: Workbench, *behaviours: str) -> Order:
    order = await bench.submit("trio-halt", {"b": list(behaviours)})
    await bench.until_state(order.order_id, "error")
    return order


async def test_a_retried_step_is_called_under_a_new_key_and_the_order_completes(bench: Workbench) -> None:
    order = await halted(bench, "permanent", "ok")
    await move(bench, order, "retry", reason="mended")
    await bench.until_state(order.order_id, "processed")
    first, again = [call.key for call in bench.calls(order.order_id) if call.step == "b"]
    assert (first[-4:], again[-4:]) == ("do/0", "do/1")
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "b", "c"]


async def test_a_retried_step_in_doubt_keeps_its_key(bench: Workbench) -> None:
    order = await halted(bench, "permanent-doubt", "ok")
    await move(bench, order, "retry")
    await bench.until_state(order.order_id, "processed")
    assert len({call.key for call in bench.calls(order.order_id) if call.step == "b"}) == 1


async def test_a_step_done_by_hand_is_not_called_and_its_result_goes_on(bench: Workbench) -> None:
    order = await halted(bench, "permanent")
    await move(bench, order, "skip", reason="by phone", result='{"by":"hand"}')
    detail = await bench.until_state(order.order_id, "processed")
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "c"]
    step = detail.steps[1]
    assert (step.state, step.result, step.by_hand) == ("completed", '{"by":"hand"}', True)
    assert (await order.result(timeout=60))["known"] == ["a", "b"]


async def test_a_halted_order_is_undone_when_an_operator_says_so(bench: Workbench) -> None:
    order = await halted(bench, "permanent")
    await move(bench, order, "compensate", reason="hopeless")
    await bench.until_state(order.order_id, "compensated")
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "un-a"]


async def test_compensation_resumes_at_the_undo_that_failed(bench: Workbench) -> None:
    order = await bench.submit("trio", {"b": "permanent", "un-a": ["permanent", "ok"]})
    await bench.until_state(order.order_id, "compensation_failed")
    await move(bench, order, "resume")
    await bench.until_state(order.order_id, "compensated")
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "un-a", "un-a"]


async def test_an_undo_done_by_hand_lets_the_others_go_on(bench: Workbench) -> None:
    order = await bench.submit("trio", {"c": "permanent", "un-b": "permanent"})
    await bench.until_state(order.order_id, "compensation_failed")
    await move(bench, order, "skip", reason="by phone")
    await bench.until_state(order.order_id, "compensated")
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "c", "un-b", "un-a"]


async def test_a_closed_order_ends_for_its_client(bench: Workbench) -> None:
    order = await halted(bench, "permanent")
    with pytest.raises(OrderHalted):
        await order.result(timeout=60)
    await move(bench, order, "close", reason="settled")
    with pytest.raises(OrderClosed, match="settled"):
        await order.result(timeout=60)


async def test_of_two_operators_who_saw_the_same_the_later_one_moves_nothing(bench: Workbench) -> None:
    order = await halted(bench, "permanent", "permanent", "ok")
    seen = (await bench.detail(order.order_id)).order.fence
    await move(bench, order, "retry", fence=seen)
    await bench.until_state(order.order_id, "error")
    detail = await move(bench, order, "skip", fence=seen)
    assert detail.order.state == "error"
    assert "has moved on" in detail.history[-1].why
