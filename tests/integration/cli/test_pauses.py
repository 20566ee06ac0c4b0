"""Pausing by command: whose pause it is, what a second one says, and how it is shown with an order that it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli.conftest import Triumvir
from tests.integration.cli.test_store_commands import DEFINITION, execute
from triumvir.settings import Settings

ORDER = (
    "insert into orders (client, order_id, workflow, version, digest, rank, status_queue, held_by, held_at)"
    " values ('shop-a', '{id}', 'order-fulfilment', 1, sha256('x'), 1, 'status.shop-a', '{held}', now())"
)


@pytest.fixture(autouse=True)
def applied(triumvir: Triumvir, tmp_path: Path) -> None:
    file = tmp_path / "definitions.py"
    file.write_text(DEFINITION.format(undo="refund"))
    triumvir("workflows", "apply", str(file))


def test_a_second_pause_says_whose_the_first_is_and_changes_nothing(triumvir: Triumvir) -> None:
    first = triumvir("workflows", "pause", "order-fulfilment", "--reason", "the bank [is] down")
    assert first.startswith("workflow order-fulfilment is paused by operator:")
    second = triumvir("workflows", "pause", "order-fulfilment", "--reason", "again")
    assert second.startswith("workflow order-fulfilment is paused already, by operator:")
    assert second.endswith("the bank [is] down\n")
    (listed,) = triumvir("pauses", "list", "--json")
    assert (listed["scope"], listed["name"], listed["version"], listed["orders_held"]) == (
        "workflow",
        "order-fulfilment",
        0,
        0,
    )
    assert "the bank [is] down" in triumvir("pauses", "list")


def test_an_end_of_a_pause_is_logged_once_with_who_and_why(triumvir: Triumvir) -> None:
    triumvir("agents", "pause", "payments", "--reason", "the bank is down")
    assert "goes on; it was paused by" in triumvir("agents", "unpause", "payments", "--reason", "it is back")
    assert "was not paused; nothing was done" in triumvir("agents", "unpause", "payments")
    log = triumvir("pauses", "log", "--json")
    assert [(line["what"], line["reason"]) for line in log] == [
        ("unpaused", "it is back"),
        ("paused", "the bank is down"),
    ]
    assert "the bank is down" in triumvir("pauses", "log")


def test_a_version_and_all_versions_are_two_pauses(triumvir: Triumvir) -> None:
    triumvir("workflows", "pause", "order-fulfilment", "--version", "1", "--reason", "old")
    triumvir("workflows", "pause", "order-fulfilment", "--reason", "all")
    said = triumvir("workflows", "unpause", "order-fulfilment", err=True)
    assert "workflow order-fulfilment v1 is still paused" in said
    assert "triumvir workflows unpause order-fulfilment --version 1" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("workflows", "pause", "order-fulfillment"), "did you mean 'order-fulfilment'?"),
        (("workflows", "pause", "order-fulfilment", "--version", "7"), "has no version 7; there is 1"),
        (("agents", "pause", "payment"), "did you mean 'payments'?"),
    ],
)
def test_what_is_not_there_is_not_paused(triumvir: Triumvir, arguments: tuple[str, ...], said: str) -> None:
    assert said in triumvir(*arguments, "--reason", "x", code=1)
    assert triumvir("pauses", "list", "--json") == []


def test_an_order_shows_why_it_does_not_move_since_when_and_by_whom(
    triumvir: Triumvir, settings: Settings
) -> None:
    triumvir("agents", "pause", "payments", "--reason", "the bank is down")
    execute(
        settings,
        ORDER.format(id="1", held="pause:agent:payments"),
        ORDER.format(id="2", held="pause:workflow:order-fulfilment"),
        ORDER.format(id="3", held="window:payments"),
        ORDER.format(id="4", held="pause:order"),
        "update orders set paused_at = now(), paused_by = 'operator:ann: wait' where order_id = '4'",
    )
    shown = {
        order_id: " ".join(triumvir("orders", "show", f"shop-a/{order_id}").split()) for order_id in "1234"
    }
    assert "held by pause:agent:payments since 20" in shown["1"]
    assert "agent payments is paused since 20" in shown["1"]
    assert ": the bank is down; to go on: triumvir agents unpause payments" in shown["1"]
    assert "that pause is over" in shown["2"]
    assert "agent payments has no room" in shown["3"]
    assert "by operator:ann: wait; nothing is counted" in shown["4"]
    assert "to go on: triumvir orders unpause shop-a/4" in shown["4"]
    listed = triumvir("orders", "list", "--held", "--json")
    assert [order["order_id"] for order in listed] == ["4", "3", "2", "1"]
    assert "its pause by operator:ann: wait, since 20" in " ".join(
        triumvir("orders", "list", "--held").split()
    )
    agents = {row["name"]: row for row in triumvir("agents", "list", "--json")}
    assert (agents["payments"]["held"], agents["payments"]["paused"]["reason"]) == (2, "the bank is down")
    assert "none runs" in triumvir("agents", "list")
    execute(
        settings,
        "update orders set ended_at = now(), state = 'cancelled', held_by = null where order_id = '3'",
    )
    assert len(triumvir("orders", "list", "--held", "--json")) == 3
