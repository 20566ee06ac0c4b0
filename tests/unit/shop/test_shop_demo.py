from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest

from shop.demo.following import Following
from shop.demo.orders_file import read_orders
from shop.demo.records import Records
from shop.demo.report import ENOUGH_FOR_AN_UNDO, Tally, compare
from shop.demo.tables import last_line

EFFECTS = [
    {"service": "inventory", "order": "shop/1", "direction": "do", "key": "1/r/do", "amount": "3", "at": 1.0},
    {"service": "payments", "order": "shop/1", "direction": "do", "key": "1/c/do", "amount": "9", "at": 2.0},
    {"service": "shipping", "order": "shop/1", "direction": "do", "key": "1/s/do", "amount": "4", "at": 3.0},
    {"service": "inventory", "order": "shop/2", "direction": "do", "key": "2/r/do", "amount": "3", "at": 1.0},
    {
        "service": "inventory",
        "order": "shop/2",
        "direction": "undo",
        "key": "2/r/undo",
        "amount": "3",
        "at": 4.0,
    },
]


def records() -> Records:
    return Records(
        ends={"shop/1": "processed", "shop/2": "compensated", "shop/3": "compensated"},
        steps={
            "shop/1": {"inventory": "done", "payments": "done", "shipping": "done"},
            "shop/2": {"inventory": "undone", "payments": "none"},
            "shop/3": {},
        },
        amounts={"shop/1": {"inventory": "3", "payments": "9.00", "shipping": "4"}},
        failed_at={"shop/2": "payments", "shop/3": "orders"},
    )


def following(**last: str) -> Following:
    told = Following(len({"1", "2", "3"} | last.keys()), lambda *status: None)
    for order_id, status in {"1": "completed", "2": "compensated", "3": "compensated", **last}.items():
        told.told(order_id, status)
    return told


def test_a_run_in_which_all_agrees_is_good() -> None:
    report = compare(records(), EFFECTS, EFFECTS, following())
    assert report.is_good
    assert report.groups == {
        ("processed", ""): 1,
        ("compensated", "undone: refused by payments"): 1,
        ("compensated", "nothing to undo: refused by check-order"): 1,
    }
    assert report.tallies == [
        Tally("inventory", 3, 2, 1, 1, Decimal(3), Decimal(3)),
        Tally("payments", 1, 1, 0, 1, Decimal(9), Decimal(9)),
        Tally("shipping", 1, 1, 0, 1, Decimal(4), Decimal(4)),
    ]
    line = last_line(report, 7.2, 1)
    assert line.startswith("3 orders: 1 processed, 2 compensated (1 with real undos); ")
    assert line.endswith("; ledgers, store and client agree; 7 s; seed 1")


def test_an_order_that_was_given_up_is_not_counted_as_refused() -> None:
    held = records()
    held.given_up = {"shop/2"}
    groups = compare(held, EFFECTS, EFFECTS, following()).groups
    assert groups["compensated", "undone: given up at payments"] == 1


def test_many_orders_without_a_real_undo_are_not_good() -> None:
    held = Records(ends={f"shop/{number}": "cancelled" for number in range(ENOUGH_FOR_AN_UNDO)})
    told = {f"{number}": "cancelled" for number in range(ENOUGH_FOR_AN_UNDO)}
    report = compare(held, [], [], following(**told))
    assert report.differences == []
    assert not report.is_good


def test_another_amount_in_the_store_than_in_the_ledger_is_a_difference() -> None:
    held = records()
    held.amounts["shop/1"]["payments"] = "8.99"
    report = compare(held, EFFECTS, EFFECTS, following())
    assert report.differences == ["shop/1: payments stands at 9, and the store has 8.99"]
    assert [tally.agrees for tally in report.tallies] == [True, False, True]


def test_an_order_that_the_store_does_not_hold_is_a_difference() -> None:
    report = compare(records(), EFFECTS, EFFECTS, following(**{"4": "completed"}))
    assert report.differences == [
        "shop/4 (None): the client was told that it is completed",
        "4 orders were submitted and not rejected, and the store holds 3",
    ]


def test_an_order_that_was_rejected_is_in_no_ledger_and_not_in_the_store() -> None:
    assert compare(records(), EFFECTS, EFFECTS, following(**{"4": "rejected"})).is_good


def test_an_end_told_otherwise_than_it_was_is_a_difference() -> None:
    report = compare(records(), EFFECTS, [], following(**{"2": "completed"}))
    assert report.differences == ["shop/2 (compensated): the client was told that it is completed"]


def test_an_order_that_nothing_was_told_of_is_a_difference() -> None:
    held = records()
    held.ends["shop/4"] = "cancelled"
    report = compare(held, EFFECTS, [], following())
    assert report.differences == [
        "the client was told nothing of 1 orders, such as shop/4",
        "3 orders were submitted and not rejected, and the store holds 4",
    ]


async def test_whoever_waits_for_a_share_is_woken_when_it_is_reached() -> None:
    told = Following(4, lambda *status: None)
    waiting = asyncio.ensure_future(told.until_ended(0.25))
    assert told.told("1", "completed")
    assert told.told("1", "completed")  # told twice, counted once
    assert not told.told("2", "compensating")
    await asyncio.wait([waiting], timeout=0)
    assert not waiting.done()
    told.told("2", "compensated")
    await asyncio.wait_for(waiting, 5)
    assert told.ended == 2


async def test_a_share_reached_before_is_not_waited_for() -> None:
    told = Following(2, lambda *status: None)
    told.told("1", "completed")
    await asyncio.wait_for(told.until_ended(0.0), 5)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"order_id":"1"}\n{"order_id":', ":2: not JSON"),
        ('{"order_id":"1"}\n\n[1]', ":3: order_id is missing"),
        ('{"order_id":7}', ":1: order_id is missing"),
        ('{"order_id":"1"}\n{"order_id":"1"}', ":2: order_id '1' stands in line 1 already"),
        ("\n", "holds no orders"),
    ],
)
def test_a_file_that_is_none_of_orders_is_refused_naming_the_line(
    tmp_path: Path, text: str, named: str
) -> None:
    file = tmp_path / "orders.ndjson"
    file.write_text(text)
    with pytest.raises(ValueError, match=named):
        read_orders(file)
