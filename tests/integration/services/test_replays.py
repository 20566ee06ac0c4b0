"""Dead letters as their operators see them: compared, handled again, discarded, resolved; each once."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pytest

from tests.house.source import ROOT
from tests.integration.services.workbench import Sender, Workbench, new_id
from tests.waiting import eventually
from triumvir.cli import equipment
from triumvir.cli.app import execute
from triumvir.workflow import Step, Workflow

WIDE: Final = {"COLUMNS": "300"}


class Said(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


@pytest.fixture
async def sender(bench: Workbench) -> Sender:
    return await bench.sender()


async def dead(bench: Workbench, *arguments: str) -> Said:
    """``triumvir dead ...`` on the suite's servers, in this process: starting another one takes longer."""
    return await asyncio.to_thread(_execute, {**bench.suite.environment({}), **WIDE}, ["dead", *arguments])


def _execute(environment: Mapping[str, str], arguments: Sequence[str]) -> Said:
    with pytest.MonkeyPatch.context() as patch, io.StringIO() as out, io.StringIO() as err:
        for name, value in environment.items():
            patch.setenv(name, value)
        equipment.settings.cache_clear()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = execute(arguments)
        equipment.settings.cache_clear()
        return Said(code, out.getvalue(), err.getvalue())


async def dead_beside(bench: Workbench, *arguments: str) -> Said:
    """The same as an operator at another terminal runs it, at the same time."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "triumvir.cli", "dead", *arguments, cwd=ROOT,
        env={**os.environ, **bench.suite.environment({}), **WIDE},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(40):
        out, err = await process.communicate()
    return Said(process.returncode or 0, out.decode(), err.decode())


async def shown(bench: Workbench, letter: Any) -> dict[str, Any]:
    """``dead show --json``."""
    said = await dead(bench, "show", str(letter["id"]), "--json")
    assert said.code == 0, said
    found: dict[str, Any] = json.loads(said.out)
    return found


async def refused(bench: Workbench, sender: Sender, order: dict[str, Any], **properties: Any) -> Any:
    """The dead letter of a submission that is refused, once its sender was told."""
    message_id = await sender.send(order, **properties)
    await sender.hears(submission=message_id, status="rejected")
    return await bench.letter(message_id)


def _order(order_id: str, **members: Any) -> dict[str, Any]:
    return {"order_id": order_id, "workflow": "solo", "payload": {}, **members}


def _apply(bench: Workbench, name: str) -> None:
    bench.suite.apply([Workflow(name, 1, [Step("a", agent="lab", operation="a", undo="un-a")])])


async def _log(bench: Workbench, letter: Any) -> list[str]:
    query = "select what from dead_letter_log where letter = $1 order by n"
    return [row["what"] for row in await bench.db.fetch(query, letter["id"])]


async def test_an_order_refused_for_a_workflow_that_came_late_is_replayed_to_its_end_and_once(
    bench: Workbench, sender: Sender
) -> None:
    order_id, name = new_id(), f"late-{new_id()}"
    letter = await refused(bench, sender, _order(order_id, workflow=name, payload={"x": 1}))
    await asyncio.to_thread(_apply, bench, name)
    key = f"{sender.account.name}/{order_id}"
    said = await dead(bench, "replay", str(letter["id"])[:12], "--note", "applied it")
    assert (said.code, said.out) == (0, f"{str(letter['id'])[:8]}  replayed: accepted as {key}\n"), said
    await sender.hears(order_id=order_id, status="received", sequence=1)
    await sender.hears(order_id=order_id, status="completed", sequence=2)
    again = await dead(bench, "replay", str(letter["id"]))
    assert again.code == 0
    assert "was replayed already, by submitter:" in again.out
    for other in ("discard", "resolve"):
        late = await dead(bench, other, str(letter["id"]), "--note", "too late")
        assert (late.code, "was replayed already" in late.out) == (1, True), late
    assert len(bench.calls(order_id)) == 1
    found = await shown(bench, letter)
    assert [event["what"] for event in found["log"]] == ["replay_asked", "replayed"]
    assert found["log"][0]["note"] == "applied it"
    assert found["log"][0]["who"].startswith("operator:")
    assert (found["state"], found["accepted"]["differences"]) == ("replayed", [])
    assert str(letter["id"])[:8] not in (await dead(bench, "list", "--limit", "1000")).out
    assert str(letter["id"])[:8] in (await dead(bench, "list", "--all", "--limit", "1000")).out


async def test_a_conflict_is_shown_field_by_field_and_its_replay_is_refused_again(
    bench: Workbench, sender: Sender
) -> None:
    order_id = new_id()
    await sender.send(_order(order_id, payload={"a": "ok", "lines": [{"price": 10}], "to": "[red]A"}))
    await sender.hears(order_id=order_id, status="completed")
    other = _order(order_id, version=1, payload={"a": "ok", "lines": [{"price": 12}, {}], "odd name": True})
    letter = await refused(bench, sender, other)
    found = await shown(bench, letter)
    assert found["accepted"]["order"] == f"{sender.account.name}/{order_id}"
    assert found["accepted"]["state"] == "processed"
    differences = [tuple(each.values()) for each in found["accepted"]["differences"]]
    assert differences == [
        ("$.version", "changed", None, 1),
        ("$.payload.lines[0].price", "changed", 10, 12),
        ("$.payload.lines[1]", "added", None, {}),
        ("$.payload.to", "missing", "[red]A", None),
        ('$.payload["odd name"]', "added", None, True),
    ]
    text = (await dead(bench, "show", str(letter["id"]))).out
    (line,) = [line for line in text.splitlines() if "$.payload.to" in line]
    assert line.split("  ", 1)[1].split() == ['"[red]A"', "(not", "there)"]
    said = await dead(bench, "replay", str(letter["id"]))
    assert said.code == 1
    assert "refused again: conflict: order_id" in said.out
    query = "select count(*) from dead_letters where message_id = $1"
    assert await bench.db.fetchval(query, letter["message_id"]) == 1
    assert (await shown(bench, letter))["state"] == "open"
    resolved = await dead(bench, "resolve", str(letter["id"]), "--note", "shop sent it anew")
    assert (resolved.code, resolved.out) == (0, f"{str(letter['id'])[:8]}  resolved\n")
    assert len(bench.calls(order_id)) == 1


async def test_a_replay_refused_for_another_reason_leaves_one_letter_with_the_new_reason_and_tells_nobody_twice(
    bench: Workbench, sender: Sender
) -> None:
    order_id, name = new_id(), f"late-{new_id()}"
    letter = await refused(bench, sender, _order(order_id, workflow=name))
    await sender.send(_order(order_id))
    await sender.hears(order_id=order_id, status="completed")
    await asyncio.to_thread(_apply, bench, name)
    said = await dead(bench, "replay", str(letter["id"]))
    assert (said.code, "refused again: conflict" in said.out) == (1, True), said
    rows = await bench.db.fetch(
        "select id, reason, settlement from dead_letters where message_id = $1", letter["message_id"]
    )
    assert [tuple(row) for row in rows] == [(letter["id"], "conflict", None)]
    found = await shown(bench, letter)
    assert "before: unknown_workflow" in found["log"][-1]["note"]
    assert [each["path"] for each in found["accepted"]["differences"]] == ["$.workflow"]
    marker = await sender.send(b"x")
    await sender.hears(submission=marker)
    told = [each for each in sender.heard if each["submission"] == letter["message_id"]]
    assert [each["status"] for each in told] == ["rejected"]


async def test_an_order_sent_again_meanwhile_is_found_equal_and_told_its_status_once_more(
    bench: Workbench, sender: Sender
) -> None:
    order_id, name = new_id(), f"late-{new_id()}"
    letter = await refused(bench, sender, _order(order_id, workflow=name))
    await asyncio.to_thread(_apply, bench, name)
    await sender.send(_order(order_id, workflow=name))
    await sender.hears(order_id=order_id, status="completed")
    assert (await shown(bench, letter))["accepted"]["differences"] == []
    said = await dead(bench, "replay", str(letter["id"]))
    assert (said.code, "was accepted before, with the same content" in said.out) == (0, True), said

    await sender.hears_in_order(order_id, [0, 1, 2, 2])
    assert len(bench.calls(order_id)) == 1


async def test_two_operators_and_two_submitters_replay_many_letters_each_once(
    bench: Workbench, sender: Sender
) -> None:
    second = await asyncio.to_thread(bench.suite.start, "submitter")
    name = f"late-{new_id()}"
    ids = [new_id() for _ in range(20)]
    letters = [await refused(bench, sender, _order(order_id, workflow=name)) for order_id in ids]
    await asyncio.to_thread(_apply, bench, name)
    keys = [str(letter["id"]) for letter in letters]
    one, two = await asyncio.gather(
        dead_beside(bench, "replay", *keys), dead_beside(bench, "replay", *reversed(keys))
    )
    assert (one.code, two.code) == (0, 0), (one, two)
    assert [said.out.count("accepted as") for said in (one, two)] == [20, 20], (one, two)
    for order_id in ids:
        await sender.hears(order_id=order_id, status="completed", sequence=2)
    assert all(len(bench.calls(order_id)) == 1 for order_id in ids)
    for letter in letters:
        assert await _log(bench, letter) == ["replay_asked", "replayed"]
    assert await asyncio.to_thread(second.stop) == 0


async def test_a_cancel_that_was_set_aside_is_taken_down_by_its_replay(
    bench: Workbench, sender: Sender
) -> None:
    order_id = new_id()
    letter = await refused(
        bench, sender, {"order_id": order_id, "reason": "x" * 10_001}, type_="order.cancel.v1"
    )
    said = await dead(bench, "replay", str(letter["id"]))
    assert (said.code, "refused again: invalid: reason" in said.out) == (1, True), said
    body = json.dumps({"order_id": order_id, "reason": "shorter"}).encode()
    await bench.db.execute("update dead_letters set body = $2 where id = $1", letter["id"], body)
    said = await dead(bench, "replay", str(letter["id"]))
    assert f"replayed: the cancel of {sender.account.name}/{order_id} was taken down" in said.out, said
    await sender.send(_order(order_id, workflow="missing"))
    await sender.hears(order_id=order_id, status="cancelled")


@pytest.mark.parametrize(
    ("type_", "properties", "reason"),
    [
        ("order.submit.v1", {"content_type": "text/xml"}, "invalid: content_type"),
        ("order.submit.v9", {}, "unknown_type: type"),
        ("order.submit.v1", {"reply_to": "agent.lab"}, "unauthorised: reply_to"),
    ],
)
async def test_a_replay_is_judged_by_all_that_the_message_came_with(
    bench: Workbench, sender: Sender, type_: str, properties: dict[str, Any], reason: str
) -> None:
    letter = await refused(bench, sender, _order(new_id()), type_=type_, **properties)
    said = await dead(bench, "replay", str(letter["id"]))
    assert (said.code, f"refused again: {reason}" in said.out) == (1, True), said


async def test_what_nobody_owns_or_other_queues_brought_is_not_replayed_and_says_why(
    bench: Workbench, sender: Sender
) -> None:
    anonymous = await bench.letter(await sender.send(_order(new_id()), user_id=None))
    said = await dead(bench, "replay", str(anonymous["id"]))
    assert (said.code, "it came without a user_id" in said.out) == (1, True), said
    await bench.publish("scheduler.replies", b"{", "step.succeeded.v1", message_id=(reply := new_id()))
    evidence = await bench.letter(reply)
    said = await dead(bench, "replay", str(evidence["id"]))
    assert (said.code, "is evidence, its order goes on by its own deadlines" in said.out) == (1, True), said
    for letter in (anonymous, evidence):
        assert await _log(bench, letter) == []
        done = await dead(bench, "discard", str(letter["id"]), "--note", "seen")
        assert (done.code, done.out) == (0, f"{str(letter['id'])[:8]}  discarded\n")


async def test_of_two_operators_that_settle_a_letter_one_wins_and_the_other_is_told(
    bench: Workbench, sender: Sender
) -> None:
    letter = await refused(bench, sender, _order(new_id(), workflow="nothing"))
    key = str(letter["id"])
    both = await asyncio.gather(
        dead_beside(bench, "discard", key, "--note", "a test"),
        dead_beside(bench, "resolve", key, "--note", "by hand"),
    )
    assert sorted(said.code for said in both) == [0, 1], both
    (loser,) = [said for said in both if said.code]
    assert "already, by operator:" in loser.out
    won = "discarded" if both[0].code == 0 else "resolved"
    repeated = await dead(bench, "discard" if won == "discarded" else "resolve", key, "--note", "once more")
    assert (repeated.code, f"was {won} already" in repeated.out) == (0, True), repeated
    assert await _log(bench, letter) == [won]
    replayed = await dead(bench, "replay", key)
    assert (replayed.code, f"was {won} already" in replayed.out) == (1, True), replayed


async def test_a_message_that_comes_again_after_its_letter_was_settled_opens_it_again(
    bench: Workbench, sender: Sender
) -> None:
    order = _order(new_id(), workflow="nothing")
    letter = await refused(bench, sender, order, message_id=(message_id := new_id()))
    await dead(bench, "discard", str(letter["id"]), "--note", "a test")
    await sender.send(order, message_id=message_id)

    async def is_open() -> bool:
        return bool((await shown(bench, letter))["state"] == "open")

    await eventually(is_open, what="the letter to be open again")
    assert await _log(bench, letter) == ["discarded", "came_again"]
    listed = json.loads((await dead(bench, "list", "--client", sender.account.name, "--json")).out)
    assert [each["id"] for each in listed] == [str(letter["id"])]


async def test_open_letters_are_counted_for_the_alarm_and_settled_ones_are_not(
    bench: Workbench, sender: Sender
) -> None:
    supervisor = next(each for each in bench.suite.running if each.name.startswith("supervisor"))
    letter = await refused(bench, sender, _order(new_id(), workflow="nothing"))

    async def counted() -> bool:
        number = await bench.db.fetchval(
            "select count(*) from dead_letters where settlement is null and queue = 'orders'"
        )
        metrics: str = supervisor.get("/metrics")[1]
        return f'triumvir_dead_letters_open{{queue="orders"}} {number}' in metrics

    await eventually(counted, within=60, what="the count with the letter")
    await dead(bench, "discard", str(letter["id"]), "--note", "a test")
    await eventually(counted, within=60, what="the count without it")
