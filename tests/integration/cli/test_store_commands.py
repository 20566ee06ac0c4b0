"""Commands on a real database: migrate, workflows, orders, dead."""

from __future__ import annotations

import json
from pathlib import Path

import asyncpg
import pytest

from tests.integration.cli.conftest import Triumvir
from tests.orders_database import with_documents_at
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


def test_a_purged_order_is_shown_as_such_and_none_of_its_steps_as_not_started(
    triumvir: Triumvir, applied: Path, settings: Settings
) -> None:
    execute(
        settings,
        "insert into orders (client, order_id, workflow, version, digest, rank, status_queue, state, ended_at)"
        " values ('shop-a', '1', 'order-fulfilment', 1, sha256('x'), 1, 'status.shop-a', 'processed', now())",
        "update orders set purged_at = now()",
        "insert into order_documents (client, order_id, payload, digest) values ('shop-a', '1', '', sha256('x'))",
    )
    shown = triumvir("orders", "show", "shop-a/1")
    assert "order-fulfilment v1  processed" in shown
    assert "its steps, data and history are gone; its key, digest and state are kept" in shown
    assert "not started" not in shown
    order = triumvir("orders", "show", "shop-a/1", "--json")["order"]
    assert order["purged_at"]
    assert order["payload"] is None


def test_a_cancel_is_written_down_with_who_asked(triumvir: Triumvir, settings: Settings) -> None:
    execute(
        settings,
        "insert into orders (client, order_id, workflow, version, digest, rank, status_queue)"
        " values ('shop-a', '1', 'w', 1, sha256('x'), 1, 'status.shop-a')",
        "insert into orders (client, order_id, workflow, version, digest, rank, status_queue, state, ended_at)"
        " values ('shop-a', '2', 'w', 1, sha256('x'), 1, 'status.shop-a', 'processed', now())",
        "insert into orders (client, order_id, workflow, version, digest, rank, status_queue, state)"
        " values ('shop-a', '4', 'w', 1, sha256('x'), 1, 'status.shop-a', 'compensation_failed')",
    )
    assert "asked for by operator:" in triumvir("orders", "cancel", "shop-a/1", "--reason", "customer called")
    (command,) = triumvir("orders", "show", "shop-a/1", "--json")["commands"]
    assert command["kind"] == "cancel"
    assert "customer called" in command["data"]
    assert "operator:" in command["data"]
    assert "is processed already" in triumvir("orders", "cancel", "shop-a/2", code=1)
    assert "its undo failed; triumvir orders resume" in triumvir("orders", "cancel", "shop-a/4", code=1)
    assert triumvir("orders", "show", "shop-a/4", "--json")["commands"] == []
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


def test_a_letter_is_settled_once_with_a_reason_and_only_then_leaves_the_list(
    triumvir: Triumvir, settings: Settings
) -> None:
    execute(
        settings,
        "insert into dead_letters (id, queue, reason, detail, client, headers, body) values"
        " ('aaaa0000-0000-0000-0000-000000000000', 'orders', 'invalid', 'x', 'shop-a', '{}', '{oops'),"
        " ('bbbb0000-0000-0000-0000-000000000000', 'agent.lab', 'invalid', 'x', null, '{}', '{')",
    )
    assert "Missing option '--note'" in triumvir("dead", "discard", "aaaa", code=2)
    assert "say why" in triumvir("dead", "discard", "aaaa", "--note", " ", code=2)
    assert "no dead letter's id begins with 'cccc'" in triumvir(
        "dead", "discard", "bbbb", "cccc", "--note", "x", code=1
    )
    assert len(triumvir("dead", "list", "--json")) == 2, "an id that is none stops it before anything is done"
    assert triumvir("dead", "discard", "bbbb", "bbbb0000", "--note", "[red]seen") == "bbbb0000  discarded\n"
    assert "bbbb0000" not in triumvir("dead", "list")
    assert "discarded" in triumvir("dead", "list", "--all")
    assert "[red]seen" in triumvir("dead", "show", "bbbb")
    said = triumvir("dead", "resolve", "bbbb", "aaaa", "--note", "by hand", code=1)
    assert "bbbb0000  was discarded already, by operator:" in said
    assert "aaaa0000  resolved" in said
    assert "aaaa0000  was resolved already" in triumvir("dead", "replay", "aaaa", code=1)


def test_a_replay_that_no_submitter_takes_stays_asked_for_and_keeps_others_from_settling_it(
    triumvir: Triumvir, settings: Settings
) -> None:
    execute(
        settings,
        "insert into dead_letters (id, queue, reason, detail, client, headers, body) values"
        " ('aaaa0000-0000-0000-0000-000000000000', 'orders', 'invalid', 'x', 'shop-a', '{}', '{oops')",
    )
    assert triumvir("dead", "replay", "aaaa", "--wait", "0") == "aaaa0000  asked for; a submitter takes it\n"
    assert "replay asked" in triumvir("dead", "list")
    said = triumvir("dead", "replay", "aaaa", "--wait", "0.2", code=1)
    assert "no submitter answered within 0.2 s; is one running? It stays asked for" in said
    said = triumvir("dead", "discard", "aaaa", "--note", "never mind", code=1)
    assert "aaaa0000  a replay was asked for, by operator:" in said
    assert [event["what"] for event in triumvir("dead", "show", "aaaa", "--json")["log"]] == ["replay_asked"]


def test_a_conflict_is_compared_with_the_document_in_whichever_database_it_is(
    triumvir: Triumvir, settings: Settings, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def insert(payload: str) -> str:
        return (
            "insert into order_documents (client, order_id, payload, digest)"
            f" values ('shop-a', '1', '{payload}', sha256('x'))"
        )

    execute(
        settings,
        "insert into orders (client, order_id, workflow, version, digest, rank, status_queue)"
        " values ('shop-a', '1', 'w', 1, sha256('x'), 1, 'status.shop-a')",
        "insert into dead_letters (id, queue, reason, detail, client, type, headers, body) values"
        " ('aaaa0000-0000-0000-0000-000000000000', 'orders', 'conflict', 'x', 'shop-a', 'order.submit.v1', '{}',"
        """ '{"order_id":"1","workflow":"w","version":1,"payload":{"x":"dead"}}')""",
    )
    assert triumvir("dead", "show", "aaaa", "--json")["accepted"] is None, "there is nothing to compare with"
    execute(settings, insert('{"x":"here"}'))
    (found,) = triumvir("dead", "show", "aaaa", "--json")["accepted"]["differences"]
    assert (found["path"], found["accepted"], found["dead"]) == ("$.payload.x", "here", "dead")
    elsewhere = with_documents_at(settings, empty_database_url)
    execute(elsewhere.model_copy(update={"database_url": empty_database_url}), insert('{"x":"there"}'))
    assert "not compared with what was accepted: this system's documents are in another database" in triumvir(
        "dead", "show", "aaaa", err=True
    )
    monkeypatch.setenv("TRIUMVIR_ORDERS_DSN", empty_database_url)
    equipment.settings.cache_clear()
    (found,) = triumvir("dead", "show", "aaaa", "--json")["accepted"]["differences"]
    assert found["accepted"] == "there"
    monkeypatch.setenv("TRIUMVIR_ORDERS_DSN", empty_database_url + "-gone")
    equipment.settings.cache_clear()
    assert "not compared with what was accepted: orders database:" in triumvir(
        "dead", "show", "aaaa", err=True
    )
