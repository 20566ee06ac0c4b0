"""On real servers: operations say how far they are, and their orders go on as if they had not."""

from __future__ import annotations

import pytest

from tests.integration.services.workbench import Workbench


@pytest.mark.parametrize(("workflow", "step"), [("solo", "a"), ("plain", "plain")])
async def test_what_an_operation_reports_is_history_and_told_and_its_answer_counts(
    workflow: str, step: str, bench: Workbench
) -> None:
    order = await bench.submit(workflow, {step: "report"}, progress=True)
    detail = await bench.until_history(order.order_id, f"{step}: half of it")
    assert detail.order.state == "processing"
    bench.open_gate(order.order_id)
    assert await order.result(timeout=60) == step
    told = [(status.status, status.step, status.detail) async for status in order.statuses()]
    assert [name for name, _, _ in told] == ["received", "processing", "progressed", "completed"]
    assert told[2][1:] == (step, f"{step}: half of it")
    assert len(bench.calls(order.order_id)) == 1


async def test_a_client_that_did_not_ask_is_not_told(bench: Workbench) -> None:
    order = await bench.submit("solo", {"a": "report"})
    await bench.until_history(order.order_id, "a: half of it")
    bench.open_gate(order.order_id)
    assert await bench.told(order) == ["received", "completed"]
