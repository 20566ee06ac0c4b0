"""Messages on internal queues that no service of this release sent."""

from __future__ import annotations

import json
from typing import Any

import aio_pika
import pytest

from tests.integration.services.workbench import Workbench, new_id
from tests.waiting import eventually
from triumvir.broker import agent_queue
from triumvir.contracts.codec import encode
from triumvir.contracts.messages import StepSucceeded

REPLIES = "scheduler.replies"
LAB = agent_queue("lab")

REPLY: dict[str, Any] = {
    "order_no": 999_999_999,
    "client": "shop",
    "order_id": "x",
    "step": "a",
    "step_no": 1,
    "direction": "do",
    "lock": "00000000-0000-0000-0000-000000000001",
    "fence": 1,
    "calls": 1,
    "result": None,
}
SUCCEEDED, FAILED = "step.succeeded.v1", "step.failed.v1"
STRANGE_REPLIES: list[tuple[str, str, bytes, str, str]] = [
    ("no-json", SUCCEEDED, b"{", "invalid", "body"),
    ("no-utf-8", SUCCEEDED, b"\xff\xfe", "invalid", "body"),
    ("a-list", SUCCEEDED, b"[]", "invalid", "body"),
    ("bottomless", SUCCEEDED, b"[" * 100_000, "invalid", "body"),
    ("empty", SUCCEEDED, b"", "invalid", "body"),
    ("new-version", "step.succeeded.v2", json.dumps(REPLY).encode(), "unknown_type", "step.succeeded.v2"),
    ("a-request", "step.execute.v1", json.dumps(REPLY).encode(), "invalid", "workflow"),
    ("number-too-large", SUCCEEDED, json.dumps(REPLY | {"order_no": 2**63}).encode(), "invalid", "order_no"),
    ("step-too-large", SUCCEEDED, json.dumps(REPLY | {"step_no": 2**15}).encode(), "invalid", "step_no"),
    ("no-lock", SUCCEEDED, json.dumps(REPLY | {"lock": "x"}).encode(), "invalid", "lock"),
    ("error-with-nul", FAILED, json.dumps(REPLY | {"kind": "permanent", "effect": "none", "error": "\x00"}).encode(),
     "invalid", "error"),
    ("of-no-order", SUCCEEDED, json.dumps(REPLY).encode(), "unknown_order", "999999999"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "body", "reason", "says"),
    [row[1:] for row in STRANGE_REPLIES],
    ids=[row[0] for row in STRANGE_REPLIES],
)
async def test_a_reply_that_cannot_be_read_is_set_aside_and_the_others_are_folded(
    bench: Workbench, type_: str, body: bytes, reason: str, says: str
) -> None:
    order = await bench.submit("trio")
    message_id = new_id()
    await bench.publish(REPLIES, body, type_, message_id)
    letter = await bench.letter(message_id)
    assert (letter["queue"], letter["reason"], letter["client"]) == (REPLIES, reason, None)
    assert says in letter["detail"]
    assert letter["body"] == body
    assert (await bench.alert(str(letter["id"])))["kind"] == "dead-letter"
    await order.result(timeout=60)


@pytest.mark.parametrize(
    ("type_", "body", "reason"),
    [
        ("step.execute.v2", b"{}", "unknown_type"),
        ("step.execute.v1", b"{}", "invalid"),
        ("step.execute.v1", b"\xff", "invalid"),
        ("order.submit.v1", b'{"order_id":"x","workflow":"solo","payload":{}}', "unexpected_type"),
    ],
)
async def test_a_request_that_cannot_be_read_is_set_aside_and_the_others_are_served(
    bench: Workbench, type_: str, body: bytes, reason: str
) -> None:
    order = await bench.submit("trio")
    message_id = new_id()
    await bench.publish(LAB, body, type_, message_id)
    letter = await bench.letter(message_id)
    assert (letter["queue"], letter["reason"]) == (LAB, reason)
    await bench.alert(str(letter["id"]))
    await order.result(timeout=60)


async def test_copies_of_what_was_set_aside_are_drained_and_stored_once(bench: Workbench) -> None:
    message_id = new_id()
    await bench.publish(REPLIES, b"{", SUCCEEDED, message_id)
    letter = await bench.letter(message_id)
    channel = await bench.internal()

    for queue in (f"{REPLIES}.dead", f"{LAB}.dead", "orders.dead"):
        found = await channel.declare_queue(queue, passive=True)
        assert found.declaration_result.consumer_count == 1, "the supervisor reads it"
    count = "select count(*) from dead_letters where message_id = $1 or message_id = $2"
    assert await bench.db.fetchval(count, message_id, str(letter["id"])) == 1


async def test_what_the_broker_itself_set_aside_is_stored_and_alerted(bench: Workbench) -> None:
    channel = await bench.internal()
    message_id = new_id()
    exchange = await channel.get_exchange("triumvir.dead", ensure=False)
    headers: Any = {"x-first-death-reason": "delivery_limit", "x-first-death-queue": "orders"}
    await exchange.publish(
        aio_pika.Message(b"poison", type="order.submit.v1", message_id=message_id, headers=headers),
        "orders.dead",
    )
    query = "select * from dead_letters where message_id = $1"
    letter = await eventually(lambda: bench.db.fetchrow(query, message_id), what="the dead letter")
    assert letter is not None
    assert (letter["queue"], letter["reason"]) == ("orders", "dead_lettered_by_broker")
    assert "delivery_limit" in letter["detail"]
    await bench.alert(str(letter["id"]))


async def test_a_late_reply_of_an_attempt_that_is_over_changes_nothing(bench: Workbench) -> None:
    order = await bench.submit("trio")
    await order.result(timeout=60)
    detail = await bench.detail(order.order_id)
    late = StepSucceeded.model_validate(
        REPLY
        | {
            "order_no": detail.order.no,
            "client": bench.account.name,
            "order_id": order.order_id,
            "result": {"other": True},
            "fence": detail.order.fence - 1,
        }
    )
    await bench.publish(REPLIES, encode(late), StepSucceeded.TYPE)
    after = await bench.submit("trio")
    await after.result(timeout=60)
    again = await bench.detail(order.order_id)
    assert again.order.state == "processed"
    assert [step.result for step in again.steps] == [step.result for step in detail.steps]
