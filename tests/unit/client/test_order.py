"""What an order tells its watchers, fed by hand."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.waiting import eventually
from triumvir.client.order import Order
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import Status, StatusName
from triumvir.errors import (
    BrokerError,
    OrderCancelled,
    OrderCompensated,
    OrderCompensationFailed,
    OrderHalted,
    OrderRejected,
    UnknownOrder,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Line:
    """Records what an order asks its client for."""

    name = "shop-a"

    def __init__(self) -> None:
        self.queries: list[int] = []
        self.signals: list[tuple[str, str, Any]] = []

    async def follow(self) -> None:
        pass

    async def query(self, order_id: str, from_sequence: int) -> None:
        self.queries.append(from_sequence)

    async def signal(self, order_id: str, name: str, data: Any) -> None:
        self.signals.append((order_id, name, data))

    async def cancel(self, order_id: str, reason: str | None) -> None:
        pass


def status(name: StatusName, number: int, **members: Any) -> Status:
    return Status(order_id="1", status=name, sequence=number, at=NOON, **members)


def submitted(line: Line | None = None) -> Order:
    return Order(line or Line(), "1", fingerprint=b"x")


def receive(order: Order, *statuses: Status) -> None:
    for each in statuses:
        order.receive(each, asyncio.get_running_loop().time())


async def names(order: Order) -> list[str]:
    return [each.status async for each in order.statuses()]


async def test_the_stream_ends_with_the_order() -> None:
    order = submitted()
    receive(order, status("received", 1), status("completed", 2))
    assert await names(order) == ["received", "completed"]


async def test_two_watchers_both_see_everything() -> None:
    order = submitted()
    receive(order, status("received", 1))
    watchers = [asyncio.create_task(names(order)) for _ in range(2)]
    await asyncio.sleep(0)
    receive(order, status("completed", 2))
    assert await asyncio.gather(*watchers) == [["received", "completed"]] * 2


async def test_failed_is_no_end_of_the_stream() -> None:
    order = submitted()
    receive(order, status("failed", 1), status("compensating", 2), status("compensated", 3))
    assert await names(order) == ["failed", "compensating", "compensated"]


async def test_the_result_is_the_last_steps_json() -> None:
    order = submitted()
    receive(order, status("completed", 1, result=JsonText(text='{"courier":"x"}')))
    assert await order.result() == {"courier": "x"}


async def test_the_result_does_not_wait_for_a_missing_status_before_the_end() -> None:
    order = submitted()
    receive(order, status("completed", 3, result=JsonText(text="1")))
    assert await order.result(timeout=0) == 1


@pytest.mark.parametrize(
    ("name", "error"),
    [("compensated", OrderCompensated), ("cancelled", OrderCancelled)],
)
async def test_other_ends_are_typed_errors(name: StatusName, error: type[Exception]) -> None:
    order = submitted()
    receive(order, status(name, 1, detail="because"))
    for _ in range(2):
        with pytest.raises(error, match=r"shop-a/1.*because"):
            await order.result()


async def test_an_undone_order_says_why_it_was_undone() -> None:
    order = submitted()
    receive(
        order,
        status("compensating", 1, detail="card refused"),
        status("compensated", 2, detail="nothing left"),
    )
    with pytest.raises(OrderCompensated, match="card refused"):
        await order.result()


async def test_a_halted_order_is_told_once_and_then_waited_for_again() -> None:
    order = submitted()
    receive(order, status("failed", 1))
    with pytest.raises(OrderHalted):
        await order.result()
    with pytest.raises(TimeoutError, match="last status: failed"):
        await order.result(timeout=0.01)
    again = asyncio.create_task(order.result())
    await asyncio.sleep(0)
    receive(order, status("compensating", 2), status("compensation_failed", 3))
    with pytest.raises(OrderCompensationFailed):
        await again


async def test_two_who_wait_are_both_told_that_it_halted() -> None:
    order = submitted()
    waiting = [asyncio.create_task(order.result()) for _ in range(2)]
    await asyncio.sleep(0)
    receive(order, status("failed", 1))
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OrderHalted, OrderHalted]


async def test_a_rejected_submission_carries_reason_and_detail() -> None:
    order = submitted()
    receive(order, status("rejected", 0, detail="conflict: payload: differs; choose another order_id"))
    with pytest.raises(OrderRejected) as caught:
        await order.result()
    assert caught.value.reason == "conflict"
    assert caught.value.detail == "payload: differs; choose another order_id"
    assert await names(order) == ["rejected"]


async def test_a_rejected_cancel_says_nothing_about_the_order() -> None:
    order = submitted()
    receive(order, status("rejected", 0, submission="shop-a/1/cancel/77"))
    assert order.status is None


async def test_a_rejection_never_ends_a_stream_that_has_a_status() -> None:
    order = submitted()
    receive(order, status("received", 1), status("rejected", 0), status("completed", 2))
    assert await names(order) == ["received", "completed"]


async def test_a_refused_cancel_does_not_hide_how_the_order_ended() -> None:
    order = submitted()
    receive(order, status("completed", 1), status("cancel_refused", 2))
    assert await order.result() is None


async def test_unknown_order_ends_only_a_stream_that_was_attached() -> None:
    line = Line()
    attached, own = Order(line, "1"), submitted()
    receive(attached, status("unknown_order", 0))
    receive(own, status("unknown_order", 0))
    with pytest.raises(UnknownOrder):
        await attached.result()
    assert line.queries == [1]
    with pytest.raises(TimeoutError):
        await own.result(timeout=0.01)


async def test_an_old_rejection_that_comes_again_does_not_reject_the_new_submission() -> None:
    again = Order(Line(), "1", fingerprint=b"x", refused_at=NOON)
    receive(again, status("rejected", 0))
    assert again.status is None
    late = Status(order_id="1", status="rejected", sequence=0, at=NOON + timedelta(seconds=1))
    receive(again, late)
    assert again.status == late


async def test_whoever_waits_asks_for_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triumvir.client.sequence.HOLD_BACK", 0.01)
    line = Line()
    order = submitted(line)
    receive(order, status("received", 1), status("completed", 3))
    watching = asyncio.create_task(names(order))
    assert await eventually(lambda: line.queries, within=5) == [2]
    receive(order, status("retrying", 2))
    assert await watching == ["received", "retrying", "completed"]


async def test_what_came_of_a_signal_says_nothing_of_where_the_order_stands() -> None:
    line = Line()
    order = submitted(line)
    await order.signal("approval", {"approved": True})
    assert line.signals == [("1", "approval", {"approved": True})]
    receive(
        order, status("received", 1), status("held", 2), status("signalled", 3), status("signal_refused", 4)
    )
    assert order.status is not None
    assert order.status.status == "held"


async def test_a_closed_client_ends_every_wait() -> None:
    order = submitted()
    waiting = asyncio.create_task(order.result())
    await asyncio.sleep(0)
    order.fail(BrokerError("the client is closed"))
    with pytest.raises(BrokerError, match="closed"):
        await waiting
