"""Steps that are skipped, and what steps select, through all services."""

from __future__ import annotations

import pytest

from tests.integration.services.workbench import Workbench
from triumvir.errors import OrderCompensated


def _steps_called(bench: Workbench, order_id: str) -> list[str]:
    return [call.step for call in bench.calls(order_id)]


async def test_a_step_whose_condition_is_false_is_skipped_and_the_order_goes_on(bench: Workbench) -> None:
    order = await bench.submit("choosy", {"with_b": False, "total": 12.5})
    assert await bench.told(order) == ["received", "completed"]
    assert _steps_called(bench, order.order_id) == ["a", "echo", "c"]
    detail = await bench.detail(order.order_id)
    assert [step.state for step in detail.steps] == ["completed", "skipped", "completed", "completed"]
    assert [row.why for row in detail.history if row.step_no == 2] == ["b skipped: payload.with_b is false"]


async def test_an_operation_receives_what_its_step_selects(bench: Workbench) -> None:
    order = await bench.submit("choosy", {"with_b": True, "without_c": True, "total": 12.5})
    expected = {"total": 12.5, "after": "a", "b": "completed", "id": order.order_id}
    assert await order.result(timeout=60) == expected  # the last step is skipped: of the one before it
    assert _steps_called(bench, order.order_id) == ["a", "b", "echo"]


async def test_an_order_of_which_every_step_is_skipped_is_completed(bench: Workbench) -> None:
    order = await bench.submit("idle", {"go": False})
    assert await order.result(timeout=60) is None
    assert await bench.told(order) == ["received", "completed"]
    detail = await bench.detail(order.order_id)
    assert (detail.order.state, detail.order.attempt, detail.steps[0].state) == ("processed", 0, "skipped")
    assert _steps_called(bench, order.order_id) == []


async def test_a_skipped_step_is_not_undone_and_an_undo_receives_what_its_operation_did(
    bench: Workbench,
) -> None:
    order = await bench.submit("choosy", {"with_b": False, "c": "permanent"})
    assert await bench.told(order) == ["received", "compensating", "compensated"]
    assert _steps_called(bench, order.order_id) == ["a", "echo", "c", "un-echo", "un-a"]
    assert [step.undo_state for step in (await bench.detail(order.order_id)).steps] == [
        "undone", None, "undone", None,
    ]  # fmt: skip


async def test_a_condition_that_cannot_be_worked_out_fails_its_step_for_good_and_the_rest_is_undone(
    bench: Workbench,
) -> None:
    order = await bench.submit("baffled", {"total": 5, "lines": [{"sku": "x", "price": 2}]})
    with pytest.raises(
        OrderCompensated, match=r"b cannot be run: when: length\(\) was given a value of type number"
    ):
        await order.result(timeout=60)
    assert _steps_called(bench, order.order_id) == ["echo", "un-echo"]
    detail = await bench.detail(order.order_id)
    assert [(step.state, step.effect, step.undo_state) for step in detail.steps] == [
        ("completed", "certain", "undone"),
        ("failed", "none", None),
    ]


async def test_an_order_whose_expression_fails_does_not_touch_its_neighbours(bench: Workbench) -> None:
    orders = [
        await bench.submit("baffled", {"total": 5 if n % 2 else "many", "lines": []}) for n in range(10)
    ]
    ends = [(await bench.told(order))[-1] for order in orders]
    assert ends == ["completed", "compensated"] * 5


async def test_a_condition_that_is_neither_true_nor_false_skips_nothing(bench: Workbench) -> None:
    order = await bench.submit("choosy", {"with_b": "perhaps"})
    with pytest.raises(OrderCompensated, match="b cannot be run: when is a text; it must be true or false"):
        await order.result(timeout=60)
    assert _steps_called(bench, order.order_id) == ["a", "un-a"]
