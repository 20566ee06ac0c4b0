"""Bulks by command: what is shown before anything is done, and what is done without a terminal: nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli.conftest import Triumvir
from tests.integration.cli.test_store_commands import DEFINITION, execute
from triumvir.settings import Settings

ORDERS = (
    "insert into orders (client, order_id, workflow, version, digest, rank, status_queue, state, step)"
    " select 'shop-a', n::text, 'order-fulfilment', 1, sha256('x'), 1, 'status.shop-a', 'error', 1 + n % 2"
    " from generate_series(1, 7) n"
)


@pytest.fixture(autouse=True)
def resting(triumvir: Triumvir, tmp_path: Path, settings: Settings) -> None:
    """Seven orders in `error`, four of them at their second step."""
    file = tmp_path / "definitions.py"
    file.write_text(DEFINITION.format(undo="refund"))
    triumvir("workflows", "apply", str(file))
    execute(settings, ORDERS)


def test_without_a_terminal_what_was_selected_is_shown_and_nothing_is_done(triumvir: Triumvir) -> None:
    said = triumvir("orders", "bulk", "retry", "--reason", "INC-[1]", err=True)
    assert ": retry 7 orders, selected by operator:" in said
    assert ": INC-[1]" in said
    assert [line.split() for line in said.splitlines() if "order-fulfilment" in line] == [
        ["4", "error", "order-fulfilment", "v1", "charge"],
        ["3", "error", "order-fulfilment", "v1", "reserve"],
    ]
    assert "such as shop-a/1, shop-a/2, shop-a/3, shop-a/4, shop-a/5, …" in said
    assert "nothing was done yet; to do it: triumvir orders bulk run " in said
    (listed,) = triumvir("orders", "bulk", "list", "--json")
    assert (listed["action"], listed["orders"], listed["tally"]["unasked"]) == ("retry", 7, 7)
    assert "INC-[1]" in triumvir("orders", "bulk", "list")


def test_a_preview_as_json_is_one_document(triumvir: Triumvir) -> None:
    found = triumvir("orders", "bulk", "close", "--reason", "x", "--step", "charge", "--json")
    assert (found["bulk"]["orders"], found["run"]) == (4, None)
    assert [(group["state"], group["step"], group["orders"]) for group in found["groups"]] == [
        ("error", "charge", 4)
    ]
    shown = triumvir("orders", "bulk", "show", found["bulk"]["id"][:5], "--json")
    assert (shown["id"], shown["tally"]["unasked"]) == (found["bulk"]["id"], 4)
    assert [event["what"] for event in shown["log"]] == ["selected"]
    assert shown["states"] == [{"state": "error", "orders": 4}]


def test_where_no_scheduler_runs_it_stops_and_what_was_asked_for_stays_so(triumvir: Triumvir) -> None:
    said = triumvir("orders", "bulk", "retry", "--reason", "x", "--yes", "--wait", "1", code=1)
    assert "stopped: no scheduler has taken any of" in said
    assert "to go on where it is: triumvir orders bulk run" in said


def test_what_matches_nothing_is_said_and_asks_nothing(triumvir: Triumvir) -> None:
    said = triumvir("orders", "bulk", "retry", "--reason", "x", "--client", "shop-b", err=True)
    assert said == "no such orders; nothing was done\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("retry", "--reason", "x", "--state", "pending"), 1, "retry is for orders in error, not in pending"),
        (
            ("retry", "--reason", "x", "--state", "lost"),
            2,
            "'lost' is no state; there is pending, processing",
        ),
        (("retry", "--reason", " "), 2, "say why"),
        (("retry", "--reason", "x", "--result", "1"), 2, "retry takes none; it is for skip"),
        (("skip", "--reason", "x", "--result", "{"), 1, "--result: "),
        (("retry", "--reason", "x", "--older-than", "30"), 2, "without a unit"),
        (("run", "nothing"), 1, "no bulk's id begins with 'nothing'; see: triumvir orders bulk list"),
    ],
)
def test_a_fault_names_the_fix_and_nothing_is_kept(
    triumvir: Triumvir, arguments: tuple[str, ...], code: int, said: str
) -> None:
    assert said in triumvir("orders", "bulk", *arguments, code=code)
    assert triumvir("orders", "bulk", "list", "--json") == []
