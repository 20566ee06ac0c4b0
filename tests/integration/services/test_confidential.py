"""A confidential workflow on real servers: its agents and its client have the data, and nobody else is told it."""

from __future__ import annotations

import json

import pytest

from tests.integration.services.test_accounts import LEFT, outcomes, show
from tests.integration.services.workbench import Workbench
from triumvir.errors import OrderCompensationFailed

SECRET = "4711-0815"
SAID = "no way"
"""What the agent answers when it refuses."""


async def test_data_and_errors_of_a_confidential_order_are_told_to_its_agents_alone_and_shown_on_demand(
    bench: Workbench,
) -> None:
    payload = {"a": ["transient", "ok"], "plain": "permanent", "un-b": "permanent", "card": SECRET}
    order = await bench.submit("secretive", payload)
    with pytest.raises(OrderCompensationFailed) as caught:
        await order.result(timeout=60)
    assert SAID not in str(caught.value)
    assert "undo of b failed: [confidential]" in str(caught.value)

    alert = await bench.alert(f"{order.key}/")
    assert outcomes(alert["account"]["steps"]) == LEFT
    assert alert["account"]["payload"] is None
    assert not {SECRET, SAID} & {word for word in (SECRET, SAID) if word in json.dumps(alert)}

    for options in ((), ("--json",)):
        said = await show(bench, order, *options)
        assert SECRET not in said
        assert SAID not in said
        revealed = await show(bench, order, "--reveal", *options)
        assert SECRET in revealed
        assert SAID in revealed
    assert "to be kept for 30 days after its end" in await show(bench, order)

    detail = await bench.detail(order.order_id)
    assert [row.why for row in detail.history if SAID in row.why] == []
    assert (detail.steps[3].error, detail.steps[1].undo_error) == (SAID, SAID)
    logs = [path.read_text() for path in bench.suite.folder.glob("*.log")]
    assert any(order.key in log for log in logs)
    lines = [line for log in logs for line in log.splitlines() if order.order_id in line]
    assert [line for line in lines if SAID in line or SECRET in line or "not now" in line] == []
    retried = [line for log in logs for line in log.splitlines() if "retry" in line or "retried" in line]
    assert {json.loads(line)["event"] for line in retried if "not now" in line} <= {"operation_failed"}
    assert any(json.loads(line)["event"] == "call_retried" for line in retried)
    assert any("[confidential]" in line for line in lines)
