"""An undo that arrives before what it undoes: the late request finds its tombstone, and nothing is called."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from tests.integration.services.workbench import Workbench
from tests.waiting import eventually
from triumvir.contracts.codec import encode
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import StepCompensate, StepExecute
from triumvir.contracts.names import idempotency_key, request_id


async def members(bench: Workbench, order_id: str, direction: str, attempt: int) -> dict[str, Any]:
    """What a request has that can still be answered in time, of an order that is long over."""
    order = (await bench.detail(order_id)).order
    key = f"{order.client}/{order_id}"
    return {
        "order_no": order.no,
        "client": order.client,
        "order_id": order_id,
        "workflow": "solo",
        "version": 1,
        "step": "a",
        "step_no": 1,
        "payload": JsonText.of({}),
        "complete_by": datetime.now(UTC) + timedelta(hours=1),
        "time_left_ms": 3_600_000,
        "attempts_allowed": 3,
        "idempotency_key": idempotency_key(key, "a", "undo" if direction == "undo" else "do", 0),
        "lock": uuid4(),
        "fence": order.fence + attempt,
        "attempt": attempt,
    }


async def test_a_request_that_comes_after_its_undo_is_refused_although_nobody_had_begun_it(
    bench: Workbench,
) -> None:
    order = await bench.submit("solo")
    await order.result(timeout=60)
    no = (await bench.detail(order.order_id)).order.no
    await bench.db.execute("delete from inbox where no = $1", no)  # as if no agent had ever heard of it
    undo = StepCompensate(
        operation="un-a", effect="unknown", **await members(bench, order.order_id, "undo", 2)
    )
    late = StepExecute(operation="a", **await members(bench, order.order_id, "do", 3))
    await bench.publish("agent.lab", encode(undo), StepCompensate.TYPE, request_id(order.key, "a", "undo", 2))
    await bench.until_called(order.order_id, "un-a")
    await bench.publish("agent.lab", encode(late), StepExecute.TYPE, request_id(order.key, "a", "do", 3))
    query = (
        "select count(*) from transitions join orders using (no)"
        " where order_id = $1 and why like 'late answer%stale%'"
    )

    async def is_refused() -> bool:
        return bool(await bench.db.fetchval(query, order.order_id) == 1)

    await eventually(is_refused, within=60, what="the refusal of the late request")
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "un-a"]
    row = await bench.db.fetchrow(
        "select state, calls from inbox where no = $1 and step_no = 1 and direction = 'do'", no
    )
    assert tuple(row or ()) == ("fenced", 0)
    assert (await bench.detail(order.order_id)).order.state == "processed"
