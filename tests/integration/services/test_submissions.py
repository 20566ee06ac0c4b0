"""The same order again, a different one under its id, cancels and questions."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.services.workbench import Workbench, new_id
from tests.waiting import eventually
from triumvir.broker import client_topology, connect, declare
from triumvir.contracts.json_text import JsonText
from triumvir.errors import OrderCancelled, OrderCompensated, OrderRejected, UnknownOrder


def _order(order_id: str, **members: Any) -> dict[str, Any]:
    return {"order_id": order_id, "workflow": "solo", "payload": {}, **members}


async def test_f53_an_equal_order_again_is_answered_with_its_status_under_its_old_number(
    bench: Workbench,
) -> None:
    sender, order_id = await bench.sender(), new_id()
    await sender.send(_order(order_id, payload={"x": 1, "y": [1.0]}))
    first = await sender.hears(order_id=order_id, status="completed")
    spelled_otherwise = f'{{"payload": {{"y":[1],  "x":1}}, "workflow":"solo","order_id":"{order_id}"}}'
    await sender.send(spelled_otherwise.encode(), message_id="again", priority=3)
    marker = await sender.send(b"x")
    await sender.hears(submission=marker)
    # The marker shows that the second one was handled; its answer may come after that of the marker.
    await sender.hears_in_order(order_id, [1, 2, 2])
    assert [status for status in sender.heard if status["order_id"] == order_id][2] == first
    assert await bench.db.fetchval("select count(*) from orders where order_id = $1", order_id) == 1
    assert len(bench.calls(order_id)) == 1


@pytest.mark.parametrize(
    "changed",
    [{"payload": {"x": 2}}, {"workflow": "trio"}, {"version": 1}],
    ids=["payload", "workflow", "version"],
)
async def test_f53_another_order_under_the_same_id_is_refused_while_the_first_goes_on(
    bench: Workbench, changed: dict[str, Any]
) -> None:
    sender, order_id = await bench.sender(), new_id()
    await sender.send(_order(order_id, payload={"a": "gate"}))
    await sender.hears(order_id=order_id, status="received")
    conflicting = await sender.send(_order(order_id, payload={"a": "gate"}) | changed)
    told = await sender.hears(submission=conflicting)
    assert (told["status"], told["sequence"], told["order_id"]) == ("rejected", 0, order_id)
    assert told["detail"].startswith(f"conflict: order_id: '{order_id}' was submitted before")
    assert "use a new order_id; the first order goes on unchanged" in told["detail"]
    letter = await bench.letter(conflicting)
    assert "conflict" in (await bench.alert(str(letter["id"])))["detail"]
    bench.open_gate(order_id)
    await sender.hears(order_id=order_id, status="completed", sequence=2)


async def test_f53_one_id_of_two_clients_is_two_orders_and_neither_learns_of_the_other(
    bench: Workbench,
) -> None:
    one, two = await bench.sender(), await bench.sender()
    order_id = new_id()
    await asyncio.gather(one.send(_order(order_id)), two.send(_order(order_id, payload={"b": 1})))
    for sender in (one, two):
        await sender.hears(order_id=order_id, status="completed", sequence=2)
        assert len([status for status in sender.heard if status["order_id"] == order_id]) == 2
    await one.send({"order_id": "only-mine", "from_sequence": 1}, "order.query.v1")
    assert (await one.hears(order_id="only-mine"))["status"] == "unknown_order"


async def test_f53_an_order_sent_many_times_at_once_is_one_order(bench: Workbench) -> None:
    sender, order_id = await bench.sender(), new_id()
    bodies = [_order(order_id, payload={"n": n % 2}) for n in range(20)]
    await asyncio.gather(*(sender.send(body) for body in bodies))
    await sender.hears(order_id=order_id, status="completed")
    marker = await sender.send(b"x")
    await sender.hears(submission=marker)
    await sender.hears_times(10, order_id=order_id, status="rejected")
    told = [status for status in sender.heard if status["order_id"] == order_id]
    assert {status["sequence"] for status in told if status["status"] != "rejected"} == {1, 2}
    assert len(bench.calls(order_id)) == 1


async def test_f53_two_submitters_that_get_one_order_at_once_accept_it_once(bench: Workbench) -> None:
    second = await asyncio.to_thread(bench.suite.start, "submitter")
    sender, ids = await bench.sender(), [new_id() for _ in range(20)]
    bodies = [_order(order_id, payload={"n": n}) for n in range(3) for order_id in ids]
    await asyncio.gather(*(sender.send(body) for body in bodies * 2))
    for order_id in ids:
        await sender.hears(order_id=order_id, status="completed")
    query = "select count(*) from orders where order_id = any($1)"
    assert await bench.db.fetchval(query, ids) == len(ids)
    refused = "select count(*) from dead_letters where client = $1 and reason = 'conflict'"
    await eventually(lambda: bench.db.fetchval(refused, sender.account.name), what="the refusals")
    assert all(len(bench.calls(order_id)) == 1 for order_id in ids)
    assert await asyncio.to_thread(second.stop) == 0


async def test_the_client_learns_of_a_conflict_as_an_error_that_names_the_fix(bench: Workbench) -> None:
    order = await bench.submit("solo")
    await order.result(timeout=60)
    again = await bench.submit("solo", {"other": True}, order_id=new_id())
    await again.result(timeout=60)
    refused = await bench.submit("nothing")
    with pytest.raises(OrderRejected, match="no workflow is called 'nothing'") as caught:
        await refused.result(timeout=60)
    assert caught.value.reason == "unknown_workflow"


async def test_payloads_reach_the_operation_as_they_were_sent(bench: Workbench) -> None:
    text = '{"a":"ok", "π":[1.50, 1E3, "\\u00e9", "\\\\u0000"], "empty":{}}'
    order = await bench.submit("solo", JsonText(text=text))  # type: ignore[arg-type]
    await order.result(timeout=60)
    stored = "select payload from order_documents where order_id = $1"
    assert await bench.db.fetchval(stored, order.order_id) == text


async def test_questions_are_answered_from_the_number_asked_for(bench: Workbench) -> None:
    sender, order_id = await bench.sender(), new_id()
    await sender.send(_order(order_id, workflow="trio", progress=True))
    await sender.hears(order_id=order_id, status="completed")
    for first, expected in ((1, [1, 2, 3, 4, 5]), (4, [4, 5]), (None, [5]), (99, [5])):
        sender.heard.clear()
        await sender.send({"order_id": order_id, "from_sequence": first}, "order.query.v1")
        marker = await sender.send(b"x")
        await sender.hears(submission=marker)
        await sender.hears_in_order(order_id, expected)


async def test_an_order_that_is_not_known_is_told_so(bench: Workbench) -> None:
    with pytest.raises(UnknownOrder):
        await (await bench.client()).order("never-submitted").result(timeout=60)


async def test_a_cancel_before_anything_was_begun_ends_the_order(bench: Workbench) -> None:
    order = await bench.submit("missing")
    statuses = order.statuses()
    assert [(await anext(statuses)).status for _ in range(2)] == ["received", "held"]
    await order.cancel("changed my mind")
    with pytest.raises(OrderCancelled, match="changed my mind"):
        await order.result(timeout=60)
    assert bench.calls(order.order_id) == []


async def test_a_cancel_while_a_step_runs_waits_for_its_answer_and_undoes(bench: Workbench) -> None:
    order = await bench.submit("trio", {"b": "gate"})
    await bench.until_called(order.order_id, "b")
    await order.cancel()
    await bench.until_cancel_is_taken(order.order_id)
    assert (await bench.detail(order.order_id)).order.state == "processing"
    bench.open_gate(order.order_id)
    with pytest.raises(OrderCompensated):
        await order.result(timeout=60)
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "un-b", "un-a"]


async def test_a_cancel_after_the_end_is_refused_and_the_result_stays(bench: Workbench) -> None:
    sender, order_id = await bench.sender(), new_id()
    await sender.send(_order(order_id))
    await sender.hears(order_id=order_id, status="completed")
    await sender.send({"order_id": order_id}, "order.cancel.v1")
    assert (await sender.hears(order_id=order_id, status="cancel_refused"))["sequence"] == 3
    assert await bench.db.fetchval("select state from orders where order_id = $1", order_id) == "processed"


async def test_an_order_that_waits_for_its_time_is_cancelled_at_once(bench: Workbench) -> None:
    order = await bench.submit("trio", not_before=datetime.now(UTC) + timedelta(days=1))
    await order.cancel()
    assert await bench.told(order) == ["received", "cancelled"]


async def test_a_cancel_of_an_order_that_halted_undoes_it(bench: Workbench) -> None:
    order = await bench.submit("trio-halt", {"b": "permanent"})
    await bench.until_state(order.order_id, "error")
    await order.cancel()
    assert await bench.told(order) == ["received", "failed", "compensating", "compensated"]
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "un-a"]


async def test_a_cancel_that_overtakes_its_submission_is_not_lost(bench: Workbench) -> None:
    sender, order_id = await bench.sender(), new_id()
    await sender.send({"order_id": order_id}, "order.cancel.v1")
    marker = await sender.send(b"x")
    await sender.hears(submission=marker)
    await sender.send(_order(order_id))
    await sender.hears(order_id=order_id, status="cancelled", sequence=2)
    assert bench.calls(order_id) == []


async def test_cancels_of_orders_that_never_came_keep_no_other_waiting(bench: Workbench) -> None:
    await bench.db.execute(
        "insert into commands (client, order_id, message_id, kind)"
        " select 'nobody', n::text, n::text, 'cancel' from generate_series(1, 1000) as n"
    )
    order = await bench.submit("missing")
    statuses = order.statuses()
    assert [(await anext(statuses)).status for _ in range(2)] == ["received", "held"]
    await order.cancel()
    assert (await bench.told(order))[-1] == "cancelled"
    await bench.db.execute("delete from commands where client = 'nobody'")


async def test_a_cancel_that_crosses_completion_has_one_winner_and_the_client_is_told_which(
    bench: Workbench,
) -> None:
    orders = [await bench.submit("trio") for _ in range(12)]
    await asyncio.gather(*(order.cancel() for order in orders))
    for order in orders:
        names = await bench.told(order)
        made = [call.step for call in bench.calls(order.order_id)]
        done = [step for step in made if not step.startswith("un-")]
        undone = [step.removeprefix("un-") for step in made if step.startswith("un-")]
        assert names[-1] in ("completed", "compensated", "cancelled")
        assert undone == ([] if names[-1] == "completed" else done[::-1])
        assert done or names[-1] == "cancelled"


async def test_a_cancel_sent_twice_is_taken_once(bench: Workbench) -> None:
    sender, order_id = await bench.sender(), new_id()
    await sender.send(_order(order_id, workflow="missing"))
    await sender.hears(order_id=order_id, status="held")
    for _ in range(3):
        await sender.send({"order_id": order_id}, "order.cancel.v1", message_id="the-same")
    await sender.hears(order_id=order_id, status="cancelled")
    assert await bench.db.fetchval("select count(*) from commands where order_id = $1", order_id) == 1


async def test_one_message_id_cancels_every_order_it_is_sent_for(bench: Workbench) -> None:
    sender, ids = await bench.sender(), [new_id() for _ in range(3)]
    for order_id in ids:
        await sender.send(_order(order_id, workflow="missing"))
        await sender.hears(order_id=order_id, status="held")
    for order_id in ids:
        await sender.send({"order_id": order_id}, "order.cancel.v1", message_id="cancel")
    for order_id in ids:
        await sender.hears(order_id=order_id, status="cancelled")


async def test_a_cancel_sent_again_is_answered_with_the_present_status(bench: Workbench) -> None:
    sender, order_id = await bench.sender(), new_id()
    await sender.send(_order(order_id))
    await sender.hears(order_id=order_id, status="completed")

    told = {"order_id": order_id, "status": "cancel_refused", "sequence": 3}
    for sent in range(1, 4):
        await sender.send({"order_id": order_id}, "order.cancel.v1", message_id="the-same")
        await sender.hears_times(sent, **told)


async def test_statuses_go_to_the_queue_that_the_submission_named(bench: Workbench) -> None:
    connection = await connect(bench.suite.settings.broker_url, "test")
    await declare(connection, client_topology(bench.account.name, "two", quorum=False))
    await connection.close()
    sender = await bench.sender(bench.account)
    second = await bench.sender(bench.account, ".two")
    order_id = new_id()
    await sender.send(_order(order_id), reply_to=f"status.{bench.account.name}.two")
    await second.hears(order_id=order_id, status="completed")
    assert not [status for status in sender.heard if status["order_id"] == order_id]
