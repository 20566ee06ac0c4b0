"""An order that could not be undone, on real servers: operators, its client and a command tell what is left to do."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import pytest

from tests.integration.services.test_operators import BY, move
from tests.integration.services.workbench import Workbench
from tests.waiting import eventually
from triumvir.client import Order
from triumvir.contracts.messages import Status
from triumvir.errors import OrderCompensationFailed
from triumvir.store.operators import ask_move

LEFT = [
    ("a", "certain", "not_undone"),
    ("b", "certain", "failed"),
    ("c", "certain", "undone"),
    ("plain", "none", "not_needed"),
]
"""``plain`` failed; ``c`` was undone, ``b`` could not be, and ``a`` waits for it."""


async def stuck(bench: Workbench) -> Order:
    order = await bench.submit("in-turn", {"plain": "permanent", "un-b": "permanent", "note": "für Zoë"})
    await bench.until_state(order.order_id, "compensation_failed", within=60)
    return order


def outcomes(steps: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(step["step"], step["effect"], step["outcome"]) for step in steps]


async def show(bench: Workbench, order: Order, *options: str) -> str:
    """What ``triumvir orders show`` prints."""
    environment = {**os.environ, **bench.suite.environment({})}
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "triumvir.cli",
        "orders",
        "show",
        order.key,
        *options,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complained = await child.communicate()
    assert child.returncode == 0, complained.decode()
    return said.decode()


async def test_the_alert_carries_what_an_operator_needs(bench: Workbench) -> None:
    order = await stuck(bench)
    alert = await bench.alert(f"{order.key}/")
    assert alert["detail"] == "undo of b failed: no way; undone: c; undo failed: b; not undone: a"
    account = alert["account"]
    assert outcomes(account["steps"]) == LEFT
    assert account["payload"] == {"plain": "permanent", "un-b": "permanent", "note": "für Zoë"}
    a, b, _, plain = account["steps"]
    assert (b["undo"], b["undo_error"], b["undo_calls"]) == ("un-b", "no way", 1)
    assert (plain["error"], plain["result"]) == ("no way", None)
    assert (a["result"]["step"], b["result"]["known"]) == ("a", ["a"])


async def test_the_client_is_told_what_became_of_each_step_without_errors_and_data(bench: Workbench) -> None:
    order = await stuck(bench)
    with pytest.raises(OrderCompensationFailed, match="undo of b failed") as caught:
        await order.result(timeout=60)
    status = caught.value.status
    assert isinstance(status, Status)
    steps = [step.model_dump() for step in status.steps or ()]
    assert outcomes(steps) == LEFT
    assert {frozenset(step) for step in steps} == {frozenset({"step", "effect", "outcome"})}


async def test_what_is_told_again_is_what_was_told_although_the_order_has_moved(bench: Workbench) -> None:
    sender = await bench.sender()
    body = {
        "order_id": "again",
        "workflow": "in-turn",
        "payload": {"plain": "permanent", "un-b": ["permanent", "ok"]},
    }
    await sender.send(body, reply_to=f"status.{sender.account.name}")
    first = await sender.hears(order_id="again", status="compensation_failed")
    row = await bench.db.fetchrow(
        "select o.no, t.n, o.fence from orders o join transitions t using (no)"
        " where o.client = $1 and t.status = 'compensation_failed'",
        sender.account.name,
    )
    assert row is not None
    client = sender.account.name
    await ask_move(bench.db, client, "again", "resume", who=BY, fence=row["fence"], reason=None)
    await sender.hears(order_id="again", status="compensated")
    refs = [["status", row["no"], row["n"]], ["alert", "compensation-failed", row["no"], row["n"]]]
    await bench.db.execute(
        "insert into outbox (lease, refs) values (clock_timestamp() - interval '1 h', $1)", json.dumps(refs)
    )
    await sender.hears_times(2, **first)
    key = f"{sender.account.name}/again"

    async def twice() -> list[dict[str, Any]] | None:
        await bench.alert(key)
        found = [alert for alert in bench.suite.alerts if alert["order"] == key]
        return found if len(found) == 2 else None

    told, again = await eventually(twice, what="the alert told again")
    assert told == again


async def test_the_command_shows_what_is_left_why_with_which_data_and_what_to_type(bench: Workbench) -> None:
    order = await stuck(bench)
    said = await show(bench, order)
    for line in (
        "could not be undone  undone: c; undo failed: b; not undone: a",
        "2 b (b) is done; its undo un-b failed (1 calls)",
        "undo failed with: no way",
        "1 a (a) is done; its undo un-a waits for those before it",
        '"note":"für Zoë"',
        f"triumvir orders resume {order.key}",
        f"triumvir orders skip {order.key} --reason …",
        f"triumvir orders close {order.key} --reason …",
    ):
        assert line in said
    shown = json.loads(await show(bench, order, "--json"))
    assert outcomes(shown["account"]["steps"]) == LEFT
    assert shown["account"]["payload"]["note"] == "für Zoë"


async def test_an_order_that_was_resumed_and_undone_has_nothing_left(bench: Workbench) -> None:
    order = await bench.submit("in-turn", {"plain": "permanent", "un-b": ["permanent", "ok"]})
    await bench.until_state(order.order_id, "compensation_failed", within=60)
    await move(bench, order, "resume")
    await bench.until_state(order.order_id, "compensated", within=60)
    shown = json.loads(await show(bench, order, "--json"))
    assert {step["outcome"] for step in shown["account"]["steps"]} == {"undone", "not_needed"}
    assert "could not be undone" not in await show(bench, order)


async def test_an_order_of_which_nothing_was_undone_has_no_account(bench: Workbench) -> None:
    order = await bench.submit("in-turn")
    await bench.until_state(order.order_id, "processed", within=60)
    assert json.loads(await show(bench, order, "--json"))["account"] is None
