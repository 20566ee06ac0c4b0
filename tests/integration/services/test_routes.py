"""On real servers: time-outs that lead to another step, and steps that are called once."""

from __future__ import annotations

from tests.integration.services.workbench import Workbench
from triumvir.store.reads import OrderDetail


def whys(detail: OrderDetail) -> list[str]:
    return [row.why for row in detail.history]


async def test_a_time_out_leads_to_the_other_step_and_the_main_line_goes_on(bench: Workbench) -> None:
    order = await bench.submit("routed", {"a": "hang"})
    detail = await bench.until_state(order.order_id, "processed")
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "c"]
    assert "a: no answer before the deadline; b is run instead" in whys(detail)
    assert not [why for why in whys(detail) if "tried again" in why]


async def test_without_a_time_out_the_other_step_is_not_run(bench: Workbench) -> None:
    order = await bench.submit("routed")
    await bench.until_state(order.order_id, "processed")
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "c"]


async def test_what_timed_out_is_undone_after_what_came_later(bench: Workbench) -> None:
    order = await bench.submit("routed", {"a": "hang", "c": "permanent"})
    await bench.until_state(order.order_id, "compensated")
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "c", "un-b", "un-a"]


async def test_a_late_success_of_what_timed_out_is_kept_and_told_to_the_operators(bench: Workbench) -> None:
    order = await bench.submit("routed", {"a": "late"})
    detail = await bench.until_history(order.order_id, "late success of a")
    assert (detail.steps[0].step_no, detail.steps[0].effect) == (1, "certain")
    await bench.alert("late success of a")
    await bench.until_state(order.order_id, "processed")
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "c"]


async def test_a_step_that_runs_once_is_asked_about_and_its_late_success_counts(bench: Workbench) -> None:
    order = await bench.submit("once", {"a": "late"})
    detail = await bench.until_state(order.order_id, "processed")
    assert "ask what came of a" in whys(detail)
    assert len(bench.calls(order.order_id)) == 1


async def test_a_step_that_runs_once_and_hangs_goes_to_on_error_in_doubt_after_one_call(
    bench: Workbench,
) -> None:
    order = await bench.submit("once", {"a": "hang"})
    detail = await bench.until_state(order.order_id, "error")
    assert "ask what came of a" in whys(detail)
    assert detail.steps[0].effect == "unknown"
    assert len(bench.calls(order.order_id)) == 1


async def test_a_step_that_runs_once_is_not_called_again_in_its_request(bench: Workbench) -> None:
    order = await bench.submit("once", {"a": ["transient", "ok"]})
    detail = await bench.until_state(order.order_id, "error")
    assert whys(detail)[-1] == "a failed, and runs once only: not now"
    assert len(bench.calls(order.order_id)) == 1
