"""An order from submission to its end, through all services."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.integration.services.workbench import Workbench, new_id
from tests.waiting import eventually
from triumvir.broker import client_topology, connect, declare
from triumvir.errors import OrderCompensated, OrderHalted


async def test_an_order_that_goes_well_is_told_twice_and_has_the_last_steps_result(bench: Workbench) -> None:
    order = await bench.submit("trio", {"sku": "x"})
    statuses = [status async for status in order.statuses()]
    assert [(status.status, status.sequence) for status in statuses] == [("received", 1), ("completed", 2)]
    assert await order.result(timeout=60) == {
        "step": "c",
        "key": f"{bench.account.name}/{order.order_id}/c/do/0",
        "known": ["a", "b"],
    }
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "c"]


async def test_progress_is_told_step_by_step_when_it_was_asked_for(bench: Workbench) -> None:
    order = await bench.submit("trio", progress=True)
    statuses = [status async for status in order.statuses()]
    assert [(status.status, status.step) for status in statuses] == [
        ("received", None),
        ("processing", "a"),
        ("step_completed", "a"),
        ("step_completed", "b"),
        ("completed", None),
    ]
    assert [status.sequence for status in statuses] == [1, 2, 3, 4, 5]


async def test_a_permanent_failure_rests_with_an_alert_when_the_workflow_halts(bench: Workbench) -> None:
    order = await bench.submit("trio-halt", {"b": "permanent"})
    with pytest.raises(OrderHalted, match="b failed: no way"):
        await order.result(timeout=60)
    alert = await bench.alert(order.key)
    assert (alert["kind"], alert["order"]) == ("order-halted", order.key)
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b"]
    assert (await bench.detail(order.order_id)).order.state == "error"


async def test_a_permanent_failure_undoes_what_was_done_in_reverse_order(bench: Workbench) -> None:
    order = await bench.submit("trio", {"c": "permanent"})
    assert await bench.told(order) == ["received", "compensating", "compensated"]
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "c", "un-b", "un-a"]
    with pytest.raises(OrderCompensated, match="c failed: no way"):
        await order.result(timeout=60)


async def test_a_failure_that_may_have_had_an_effect_is_undone_too(bench: Workbench) -> None:
    order = await bench.submit("trio", {"b": "permanent-doubt"})
    assert (await bench.told(order))[-1] == "compensated"
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "un-b", "un-a"]


async def test_a_doubt_of_one_call_is_not_taken_back_by_the_next(bench: Workbench) -> None:
    order = await bench.submit("trio", {"b": ["transient-doubt", "permanent"]})
    assert (await bench.told(order))[-1] == "compensated"
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "b", "un-b", "un-a"]


async def test_an_order_in_which_nothing_was_done_is_compensated_without_an_undo(bench: Workbench) -> None:
    order = await bench.submit("trio", {"a": "permanent"})
    assert await bench.told(order) == ["received", "compensating", "compensated"]
    assert [call.step for call in bench.calls(order.order_id)] == ["a"]


async def test_an_undo_that_fails_for_good_rests_with_an_alert(bench: Workbench) -> None:
    order = await bench.submit("trio", {"c": "permanent", "un-b": "permanent"})
    detail = await bench.until_state(order.order_id, "compensation_failed")
    assert [step.undo_state for step in detail.steps] == [None, "undo_failed", None]
    assert (await bench.alert(order.key))["kind"] == "compensation-failed"
    assert "un-a" not in [call.step for call in bench.calls(order.order_id)]


async def test_transient_failures_are_tried_again_inside_the_agent(bench: Workbench) -> None:
    order = await bench.submit("solo", {"a": ["transient", "transient", "ok"]})
    assert await bench.told(order) == ["received", "completed"]
    made = bench.calls(order.order_id)
    assert [(call.call, call.attempt) for call in made] == [(1, 1), (2, 1), (3, 1)]
    assert len({call.key for call in made}) == 1
    assert (await bench.detail(order.order_id)).steps[0].calls == 3


async def test_the_wait_that_the_remote_side_asked_for_is_honoured(bench: Workbench) -> None:
    order = await bench.submit("solo", {"a": ["later", "ok"]})
    assert await bench.told(order) == ["received", "completed"]
    first, second = bench.calls(order.order_id)
    assert second.at - first.at >= 0.4


async def test_calls_of_a_request_are_bounded_and_a_new_attempt_follows(bench: Workbench) -> None:
    order = await bench.submit("solo", {"a": ["transient"] * 3 + ["ok"]})
    assert await bench.told(order) == ["received", "retrying", "completed"]
    assert [call.attempt for call in bench.calls(order.order_id)] == [1, 1, 1, 2]


async def test_a_step_that_is_not_answered_in_time_is_tried_again_and_told_once(bench: Workbench) -> None:
    order = await bench.submit("hasty", {"a": ["hang", "ok"]})
    assert await bench.told(order) == ["received", "retrying", "completed"]
    made = bench.calls(order.order_id)
    assert [call.attempt for call in made] == [1, 2]
    assert made[0].fence < made[1].fence
    assert made[0].key == made[1].key


async def test_a_step_that_fails_too_often_is_given_up(bench: Workbench) -> None:
    order = await bench.submit("hasty", {"a": "hang"})
    with pytest.raises(
        OrderHalted, match=r"a failed 2 times: no answer (before the deadline|within the time left)"
    ):
        await order.result(timeout=60)
    assert len(bench.calls(order.order_id)) == 2
    assert (await bench.alert(order.key))["kind"] == "order-halted"


async def test_a_step_in_doubt_is_undone_when_it_is_given_up(bench: Workbench) -> None:
    order = await bench.submit("hasty-trio", {"b": "hang"})
    assert await bench.told(order) == ["received", "retrying", "compensating", "compensated"]
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "b", "un-b", "un-a"]


async def test_an_order_does_not_begin_before_its_time(bench: Workbench) -> None:
    begin = datetime.now(UTC) + timedelta(seconds=1.5)
    order = await bench.submit("solo", not_before=begin)
    assert await bench.told(order) == ["received", "completed"]
    (call,) = bench.calls(order.order_id)
    assert call.at >= begin.timestamp()


async def test_an_operation_that_is_not_offered_holds_the_order_and_burns_nothing(bench: Workbench) -> None:
    order = await bench.submit("missing")

    async def held() -> bool:
        return (await bench.detail(order.order_id)).order.held_by == "operation:lab/missing"

    statuses = order.statuses()
    assert [(await anext(statuses)).status for _ in range(2)] == ["received", "held"]
    assert await held()
    detail = await bench.detail(order.order_id)
    assert (detail.order.failure_count, detail.order.state) == (0, "pending")


async def test_an_undo_that_is_not_offered_holds_the_order_while_it_is_being_undone(bench: Workbench) -> None:
    order = await bench.submit("no-undo", {"b": "permanent"})
    statuses = order.statuses()
    assert [(await anext(statuses)).status for _ in range(3)] == ["received", "compensating", "held"]
    detail = await bench.detail(order.order_id)
    assert (detail.order.state, detail.order.held_by) == ("compensating", "operation:lab/un-missing")
    assert detail.order.locked_by is None


async def test_a_status_queue_that_is_gone_stops_no_order_and_the_client_can_ask_later(
    bench: Workbench,
) -> None:
    account = bench.suite.add_client("gone")
    sender = await bench.sender(account)
    order_id = new_id()
    admin = await bench.internal()
    await admin.queue_delete(f"status.{account.name}")
    await sender.send({"order_id": order_id, "workflow": "solo", "payload": {}})
    query = "select no from orders where order_id = $1 and state = 'processed'"
    await eventually(lambda: bench.db.fetchval(query, order_id), what="the end of the order")
    connection = await connect(bench.suite.settings.broker_url, "test")
    await declare(connection, client_topology(account.name, quorum=False))
    await connection.close()
    again = await bench.sender(account)
    await again.send({"order_id": order_id, "from_sequence": 1}, "order.query.v1")
    await again.hears(order_id=order_id, status="completed", sequence=2)
    assert [status["sequence"] for status in again.heard] == [1, 2]
    assert await bench.db.fetchval("select count(*) from outbox where lease < now() - interval '10 s'") == 0
