"""Commands on a real database: migrate, workflows, orders, dead."""

from __future__ import annotations

import json
from pathlib import Path

import asyncpg
import pytest

from tests.integration.cli.conftest import Triumvir
from tests.servers import blocking
from triumvir.cli import equipment
from triumvir.settings import Settings

DEFINITION = """
from triumvir import Step, Workflow
order_fulfilment = Workflow("order-fulfilment", version=1, steps=[
    Step("reserve", agent="inventory", operation="reserve-stock", undo="release-stock"),
    Step("charge", agent="payments", operation="charge-card", undo="{undo}"),
])
"""


def execute(settings: Settings, *statements: str) -> None:
    async def work() -> None:
        connection = await asyncpg.connect(settings.database_url, server_settings={"search_path": "triumvir"})
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    blocking(work)


@pytest.fixture
def applied(triumvir: Triumvir, tmp_path: Path) -> Path:
    file = tmp_path / "definitions.py"
    file.write_text(DEFINITION.format(undo="refund"))
    assert triumvir("workflows", "apply", str(file)) == "order-fulfilment v1: applied\n"
    return file


def test_an_empty_database_is_brought_up_once(
    triumvir: Triumvir, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIUMVIR_DATABASE_URL", empty_database_url)
    assert "run: triumvir migrate" in triumvir("orders", "list", code=1)
    equipment.settings.cache_clear()
    assert "applied 0001 spine" in triumvir("migrate")
    assert "up to date" in triumvir("migrate")


def test_a_changed_definition_is_refused_and_nothing_is_overwritten(
    triumvir: Triumvir, applied: Path
) -> None:
    assert "unchanged" in triumvir("workflows", "apply", str(applied))
    applied.write_text(DEFINITION.format(undo="give-back"))
    said = triumvir("workflows", "apply", str(applied), code=1)
    assert "step 'charge': undo was 'refund', is 'give-back'" in said
    assert "version=2" in said
    (listed,) = triumvir("workflows", "list", "--json")
    assert listed["definition"]["steps"][1]["undo"] == "refund"
    assert "reserve (undo) → charge (undo)" in triumvir("workflows", "list")


def test_an_order_is_drawn_with_the_steps_that_were_not_started(
    triumvir: Triumvir, applied: Path, settings: Settings
) -> None:
    execute(
        settings,
        "insert into orders (client, order_id, workflow, version, digest, rank, status_queue, held_by)"
        " values ('shop-a', '[b]1', 'order-fulfilment', 1, sha256('x'), 1, 'status.shop-a', 'agent:payments')",
        "insert into steps (no, step_no, attempt, state, effect, result)"
        " select no, 1, 1, 'completed', 'certain', '{\"reservation\":\"r1\"}' from orders",
        "insert into transitions (no, n, at, who, from_state, to_state, why, step_no)"
        " select no, n, clock_timestamp(), 'test', 'pending', 'pending', 'event ' || n, 1"
        " from orders, generate_series(1, 40) n",
    )
    shown = triumvir("orders", "show", "shop-a/[b]1")
    assert "shop-a/[b]1  order-fulfilment v1  pending" in shown
    assert "held by agent:payments" in shown
    assert '{"reservation":"r1"}' in shown
    assert "not started" in shown
    assert "10 earlier events" in shown
    assert "event 11" in shown
    assert "event 1 " not in shown
    assert "event 1 " in triumvir("orders", "show", "shop-a/[b]1", "--history", "0")
    detail = triumvir("orders", "show", "shop-a/[b]1", "--json")
    assert detail["order"]["held_by"] == "agent:payments"
    (listed,) = triumvir("orders", "list", "--state", "pending", "--json")
    assert listed["order_id"] == "[b]1"
    assert "agent:payments" in triumvir("orders", "list")


def test_a_cancel_is_written_down_with_who_asked(triumvir: Triumvir, settings: Settings) -> None:
    execute(
        settings,
        "insert into orders (client, order_id, workflow, version, digest, rank, status_queue)"
        " values ('shop-a', '1', 'w', 1, sha256('x'), 1, 'status.shop-a')",
        "insert into orders (client, order_id, workflow, version, digest, rank, status_queue, state, ended_at)"
        " values ('shop-a', '2', 'w', 1, sha256('x'), 1, 'status.shop-a', 'processed', now())",
    )
    assert "asked for by operator:" in triumvir("orders", "cancel", "shop-a/1", "--reason", "customer called")
    (command,) = triumvir("orders", "show", "shop-a/1", "--json")["commands"]
    assert command["kind"] == "cancel"
    assert "customer called" in command["data"]
    assert "operator:" in command["data"]
    assert "is processed already" in triumvir("orders", "cancel", "shop-a/2", code=1)
    assert "no order 'shop-a/3'" in triumvir("orders", "cancel", "shop-a/3", code=1)
    assert "no order 'shop-a/3'" in triumvir("orders", "show", "shop-a/3", code=1)


def test_a_move_is_written_down_as_the_order_was_seen_and_waits_for_a_scheduler(
    triumvir: Triumvir, settings: Settings
) -> None:
    execute(
        settings,
        "insert into orders (client, order_id, workflow, version, digest, rank, status_queue, state, fence, step)"
        " values ('shop-a', '1', 'w', 1, sha256('x'), 1, 'status.shop-a', 'error', 77, 1)",
        "insert into orders (client, order_id, workflow, version, digest, rank, status_queue, state, ended_at)"
        " values ('shop-a', '2', 'w', 1, sha256('x'), 1, 'status.shop-a', 'processed', now())",
    )
    skip = ("orders", "skip", "shop-a/1", "--reason", "by phone", "--wait", "0")
    assert "asked for" in triumvir(*skip, "--result", '{"by": "hand"}')
    (command,) = triumvir("orders", "show", "shop-a/1", "--json")["commands"]
    asked = json.loads(command["data"])
    assert (command["kind"], asked["fence"], asked["reason"]) == ("skip", 77, "by phone")
    assert json.loads(asked["result"]) == {"by": "hand"}
    assert asked["by"].startswith("operator:")
    assert "--result" in triumvir(*skip, "--result", '{"by": NaN}', code=1)
    assert "is error; resume is for orders in compensation_failed" in triumvir(
        "orders", "resume", "shop-a/1", code=1
    )
    assert "is processed; retry is for orders in error" in triumvir("orders", "retry", "shop-a/2", code=1)
    assert "no order 'shop-a/3'" in triumvir("orders", "close", "shop-a/3", "--reason", "x", code=1)
    assert "--reason" in triumvir("orders", "close", "shop-a/1", code=2)


def test_a_dead_letter_is_shown_as_it_came(triumvir: Triumvir, settings: Settings) -> None:
    execute(
        settings,
        "insert into dead_letters (id, queue, reason, detail, client, headers, body) values"
        " ('aaaa0000-0000-0000-0000-000000000000', 'orders', 'invalid', 'body: [red]', 'shop-a', '{\"a\":1}', '{oops'),"
        " ('bbbb0000-0000-0000-0000-000000000000', 'orders', 'invalid', 'x', null, '{}', '\\xff00')",
    )
    assert "body: [red]" in triumvir("dead", "list")
    assert [letter["id"][:4] for letter in triumvir("dead", "list", "--client", "shop-a", "--json")] == [
        "aaaa"
    ]
    assert triumvir("dead", "show", "aaaa").endswith("{oops\n")
    assert triumvir("dead", "show", "bbbb", "--json")["body_hex"] == "ff00"
    assert "no dead letter" in triumvir("dead", "show", "cccc", code=1)
