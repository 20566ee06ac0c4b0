"""Waiting for a signal, through all services: before, after, late, twice, by message and by command."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.services.workbench import Workbench, new_id
from tests.waiting import eventually
from triumvir.client import Order
from triumvir.errors import OrderCancelled, OrderCompensated
from triumvir.lifecycle import Action
from triumvir.store.operators import ask_move, ask_signal
from triumvir.store.reads import OrderDetail

YES = {"approved": True, "by": "ann"}
SIGNAL = "order.signal.v1"


async def until_waiting(bench: Workbench, order_id: str) -> OrderDetail:
    """The order once it waits for its signal."""

    async def look() -> OrderDetail | None:
        found = await bench.detail(order_id)
        return found if any(step.state == "waiting" for step in found.steps) else None

    found = await eventually(look, what=f"{order_id} to wait")
    assert found is not None
    return found


async def until_answered(bench: Workbench, order_id: str, times: int) -> None:
    """Until so many signals were answered, whether they count or not."""

    async def look() -> bool:
        told = [row.status for row in (await bench.detail(order_id)).history]
        return told.count("signalled") + told.count("signal_refused") == times

    await eventually(look, what=f"{times} answers to signals of {order_id}")


async def waiting(bench: Workbench, workflow: str = "patient", **payload: Any) -> Order:
    order = await bench.submit(workflow, payload)
    await bench.until_state(order.order_id, "processing")
    await until_waiting(bench, order.order_id)
    return order


def calls(bench: Workbench, order: Order) -> list[str]:
    return [call.step for call in bench.calls(order.order_id)]


async def test_a_signal_ends_the_wait_and_its_data_decides_how_the_order_goes_on(bench: Workbench) -> None:
    order = await waiting(bench)
    await order.signal("approval", YES)
    assert await bench.told(order) == ["received", "held", "signalled", "completed"]
    assert calls(bench, order) == ["a", "b"]
    step = (await bench.detail(order.order_id)).steps[1]
    assert (step.state, step.result, step.effect, step.calls) == (
        "completed",
        '{"approved":true,"by":"ann"}',
        "none",
        0,
    )


async def test_a_refusal_is_a_signal_like_any_other(bench: Workbench) -> None:
    order = await waiting(bench)
    await order.signal("approval", {"approved": False})
    assert await bench.told(order) == ["received", "held", "signalled", "completed"]
    assert calls(bench, order) == ["a"]


async def test_a_waiting_order_holds_no_request_and_shows_what_it_waits_for(bench: Workbench) -> None:
    order = await waiting(bench)
    row = (await bench.detail(order.order_id)).order
    assert row.locked_by is not None
    assert row.complete_by is not None
    assert (row.complete_by - row.now).total_seconds() == pytest.approx(86_400, abs=600)
    found = await bench.db.fetch("select wake_at, sent_at, retries from orders where no = $1", row.no)
    assert [tuple(one) for one in found] == [(None, None, 0)]
    await order.cancel()
    assert (await bench.told(order))[-1] == "compensated"


async def test_a_signal_before_its_step_is_reached_is_kept(bench: Workbench) -> None:
    order = await bench.submit("patient", {"a": "gate"})
    await bench.until_called(order.order_id, "a")
    await order.signal("approval", YES)
    await until_answered(bench, order.order_id, 1)
    bench.open_gate(order.order_id)
    assert await bench.told(order) == ["received", "signalled", "completed"]
    assert calls(bench, order) == ["a", "b"]


async def test_a_signal_before_its_order_is_looked_at_when_that_is_claimed(bench: Workbench) -> None:
    order_id = new_id()
    await (await bench.client()).order(order_id).signal("approval", YES)
    waits = "select count(*) from commands where order_id = $1 and taken_at is null"
    await eventually(lambda: bench.db.fetchval(waits, order_id), what="the signal to be taken down")
    order = await bench.submit("patient", {}, order_id=order_id)
    assert await bench.told(order) == ["received", "signalled", "completed"]
    assert calls(bench, order) == ["a", "b"]


async def test_without_a_signal_the_default_counts_at_the_deadline(bench: Workbench) -> None:
    order = await bench.submit("hasty-approval")
    assert await bench.told(order) == ["received", "held", "completed"]
    assert calls(bench, order) == ["a"]
    detail = await bench.detail(order.order_id)
    assert detail.steps[1].result == '{"approved":false}'
    inbox = await bench.db.fetchval(
        "select count(*) from inbox where no = $1 and step_no = 2", detail.order.no
    )
    assert inbox == 0, "there is no request that an agent could begin"


async def test_without_a_default_what_was_done_is_undone(bench: Workbench) -> None:
    order = await bench.submit("needs-approval")
    with pytest.raises(OrderCompensated, match="approve failed: no signal approval came in time"):
        await order.result(timeout=30)
    assert calls(bench, order) == ["a", "un-a"]


async def test_a_signal_that_comes_too_late_is_answered_in_words(bench: Workbench) -> None:
    sender, order_id = await bench.sender(), new_id()
    await sender.send({"order_id": order_id, "workflow": "hasty-approval", "payload": {}})
    await sender.hears(order_id=order_id, status="completed")
    await sender.send({"order_id": order_id, "name": "approval", "data": YES}, SIGNAL)
    told = await sender.hears(order_id=order_id, status="signal_refused")
    assert told["detail"] == "signal approval from the client refused: the order is processed"


async def test_of_two_signals_the_first_counts_and_the_second_is_told_so(bench: Workbench) -> None:
    order = await bench.submit("patient", {"a": "gate"})
    await bench.until_called(order.order_id, "a")
    await order.signal("approval", YES)
    await order.signal("approval", {"approved": False})
    await until_answered(bench, order.order_id, 2)
    bench.open_gate(order.order_id)
    assert await bench.told(order) == ["received", "signalled", "signal_refused", "completed"]
    assert calls(bench, order) == ["a", "b"]


async def test_the_same_signal_sent_again_counts_once_and_is_answered_with_the_present_status(
    bench: Workbench,
) -> None:
    sender = await bench.sender()
    order_id = new_id()
    await sender.send({"order_id": order_id, "workflow": "patient", "payload": {}})
    await sender.hears(order_id=order_id, status="held")
    said = {"order_id": order_id, "name": "approval", "data": YES}
    await sender.send(said, SIGNAL, message_id="once")
    await sender.hears(order_id=order_id, status="completed")
    await sender.send(said, SIGNAL, message_id="once")
    await sender.hears_times(2, order_id=order_id, status="completed")
    counted = await bench.db.fetchval("select count(*) from commands where order_id = $1", order_id)
    assert counted == 1


async def test_a_signal_of_another_client_touches_nothing_and_learns_nothing(bench: Workbench) -> None:
    order = await waiting(bench)
    stranger = await bench.sender()
    await stranger.send({"order_id": order.order_id, "name": "approval", "data": YES}, SIGNAL)
    kept = "select count(*) from commands where client = $1 and order_id = $2"
    await eventually(
        lambda: bench.db.fetchval(kept, stranger.account.name, order.order_id), what="it to be taken down"
    )
    await order.signal("approval", {"approved": False})
    assert (await bench.told(order))[-1] == "completed"
    assert calls(bench, order) == ["a"]
    assert stranger.heard == []


async def test_a_signal_that_no_step_waits_for_is_refused_with_the_names_there_are(bench: Workbench) -> None:
    order = await waiting(bench)
    await order.signal("aproval", YES)
    await order.signal("approval", YES)
    told = {status.status: status.detail async for status in order.statuses()}
    assert told["signal_refused"] is not None
    assert told["signal_refused"].endswith("no step waits for it; the signals are approval")
    assert list(told)[-1] == "completed"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"name": "Not A Name"}, "name"),
        ({}, "name"),
        ({"name": "approval", "data": "x" * 262_145}, "too_large: data"),
        (b'{"order_id": "x", "name": "approval", "data": NaN}', "data"),
    ],
)
async def test_a_signal_that_cannot_be_read_is_refused_in_words_and_kept(
    bench: Workbench, body: Any, says: str
) -> None:
    sender = await bench.sender()
    message = body if isinstance(body, bytes) else {"order_id": new_id(), **body}
    message_id = await sender.send(message, SIGNAL)
    refusal = await sender.hears(status="rejected", submission=message_id)
    assert says in refusal["detail"]
    assert (await bench.letter(message_id))["type"] == SIGNAL


async def test_a_cancel_of_an_order_that_only_waits_is_done_at_once(bench: Workbench) -> None:
    order = await waiting(bench, "only-waits")
    await order.cancel("changed my mind")
    with pytest.raises(OrderCancelled, match="changed my mind"):
        await order.result(timeout=30)


async def test_an_operator_sends_a_signal_and_the_history_says_who_and_why(bench: Workbench) -> None:
    order = await waiting(bench)
    client = bench.account.name
    await ask_signal(
        bench.db,
        client,
        order.order_id,
        "approval",
        '{"approved": true}',
        who="operator:ann",
        reason="by phone",
    )
    assert (await bench.told(order))[-1] == "completed"
    history = (await bench.detail(order.order_id)).history
    assert "signal approval from operator:ann (by phone) came for approve" in [row.why for row in history]


async def test_a_paused_wait_keeps_its_time_and_the_signal_that_comes_meanwhile(bench: Workbench) -> None:
    order, client = await waiting(bench), bench.account.name
    moves: list[Action] = ["pause", "unpause"]
    for action in moves:
        await ask_move(bench.db, client, order.order_id, action, who="operator:ann", reason=None, fence=None)
        if action == "pause":
            await bench.until_state(order.order_id, "pending")
            await order.signal("approval", YES)
            await until_answered(bench, order.order_id, 1)
            assert (await bench.detail(order.order_id)).steps[1].state == "signalled"
    assert (await bench.told(order))[-1] == "completed"
    assert calls(bench, order) == ["a", "b"]
