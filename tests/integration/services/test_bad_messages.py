"""What cannot be accepted is refused in words, kept, alerted, told to its sender, and touches no neighbour."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from aio_pika.exceptions import ChannelPreconditionFailed

from tests.integration.services.workbench import Sender, Workbench, new_id
from tests.services import Account, Suite
from tests.waiting import eventually

DEEP = '{"a":' * 70 + "1" + "}" * 70


@pytest.fixture(scope="package")
def raw_account(suite: Suite) -> Account:
    return suite.add_client("raw")


@pytest.fixture
async def sender(bench: Workbench, raw_account: Account) -> Sender:
    return await bench.sender(raw_account)


@dataclass(frozen=True)
class Bad:
    """A message that must be refused for ``reason``, in words that hold all of ``says``."""

    name: str
    reason: str
    says: tuple[str, ...]
    members: dict[str, Any] = field(default_factory=dict)
    without: str = ""
    payload: str = "{}"
    body: bytes | None = None
    type: str | None = "order.submit.v1"
    properties: dict[str, Any] = field(default_factory=dict)

    def content(self, order_id: str) -> bytes:
        if self.body is not None:
            return self.body.replace(b"ORDER", order_id.encode())
        members = {"order_id": order_id, "workflow": "solo", **self.members}
        members.pop(self.without, None)
        head = json.dumps(members, ensure_ascii=False)[:-1]
        payload = "" if self.without == "payload" else f',"payload":{self.payload}'
        return f"{head}{payload}}}".encode()


REFUSED = [
    Bad("unknown workflow", "unknown_workflow", ("workflow", "'nothing'", "workflows apply"), {"workflow": "nothing"}),
    Bad("unknown version", "unknown_workflow", ("version", "no version 9", "name one of 1"), {"version": 9}),
    Bad("version zero", "invalid", ("version", "greater than or equal to 1"), {"version": 0}),
    Bad("version as text", "invalid", ("version", "without quotes"), {"version": "latest"}),
    Bad("workflow misses", "invalid", ("workflow", "add 'workflow'"), without="workflow"),
    Bad("payload misses", "invalid", ("payload", "add 'payload'"), without="payload"),
    Bad("order id misses", "invalid", ("order_id", "add 'order_id'"), without="order_id"),
    Bad("order id with a blank", "invalid", ("order_id", "without blanks"), {"order_id": "a b"}),
    Bad("order id too long", "invalid", ("order_id", "without blanks"), {"order_id": "x" * 101}),
    Bad("order id of many bytes", "invalid", ("order_id", "printable ASCII"), {"order_id": "\U0001f600" * 100}),
    Bad("order id empty", "invalid", ("order_id",), {"order_id": ""}),
    Bad("order id with a line end", "invalid", ("order_id",), {"order_id": "a\n"}),
    Bad("order id is a number", "invalid", ("order_id", "string"), {"order_id": 7}),
    Bad("priority too high", "invalid", ("priority", "1000"), {"priority": 1001}),
    Bad("priority too low", "invalid", ("priority", "-1000"), {"priority": -1001}),
    Bad("time without a zone", "invalid", ("not_before", "timezone"), {"not_before": "2030-01-01T00:00:00"}),
    Bad("time that is none", "invalid", ("not_before",), {"not_before": "tomorrow"}),
    Bad("time before all times", "invalid", ("not_before", "the years 1"), {"not_before": "0001-01-01T00:00:00+14:00"}),
    Bad("payload is a list", "invalid", ("payload", "is not an object", "send a JSON object"), payload="[1]"),
    Bad("payload is null", "invalid", ("payload", "is not an object"), payload="null"),
    Bad("NaN", "invalid", ("NaN is not JSON", "send null or a string"), payload='{"a":NaN}'),
    Bad("Infinity", "invalid", ("Infinity is not JSON",), payload='{"a":-Infinity}'),
    Bad("NUL", "invalid", ("NUL", "remove it"), payload='{"a":"\\u0000"}'),
    Bad("NUL in a name", "invalid", ("NUL",), payload='{"\\u0000":1}'),
    Bad("lone surrogate", "invalid", ("surrogate", "valid Unicode"), payload='{"a":"\\ud800"}'),
    Bad("doubled member", "invalid", ("stands twice", "once"), payload='{"a":1,"a":2}'),
    Bad("doubled member of the envelope", "invalid", ("stands twice",), body=b'{"order_id":"ORDER","order_id":"x"}'),
    Bad("huge integer", "invalid", ("IEEE double", "send it as a string"), payload='{"a":123456789012345678901}'),
    Bad("huge float", "invalid", ("IEEE double",), payload='{"a":1e999}'),
    Bad("too deep", "too_deep", ("nested deeper than 64", "flatten"), payload=DEEP),
    Bad("bottomless", "too_deep", ("nested deeper",), payload='{"a":' + "[" * 100_000 + "]" * 100_000 + "}"),
    Bad("too large", "too_large", ("262144", "send a reference"), payload=json.dumps({"a": "x" * 262_140})),
    Bad("far too large", "too_large", ("body", "allowed"), payload=json.dumps({"a": "x" * 5_000_000})),
    Bad("no JSON", "invalid", ("not JSON", "send one JSON object"), body=b"hello"),
    Bad("half a message", "invalid", ("not JSON",), body=b'{"order_id":"ORDER","workflow":"solo"'),
    Bad("two messages", "invalid", ("text after the object",), body=b'{"order_id":"ORDER"}{}'),
    Bad("a list", "invalid", ("expected an object",), body=b'[{"order_id":"ORDER"}]'),
    Bad("nothing", "invalid", ("not JSON",), body=b""),
    Bad("no UTF-8", "invalid", ("not UTF-8", "send UTF-8"), body=b'{"order_id":"\xff"}'),
    Bad("pickled", "invalid", ("UTF-8",), body=b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x07builtins."),
    Bad("other content type", "invalid", ("content_type", "application/json"), properties={"content_type": "text/xml"}),
    Bad("unknown type", "unknown_type", ("order.submit.v2", "send one of order.submit.v1"), type="order.submit.v2"),
    Bad("no type", "unknown_type", ("type", "order.cancel.v1"), type=None),
    Bad("a type of services", "unknown_type", ("step.succeeded.v1",), type="step.succeeded.v1"),
    Bad("reply to nowhere", "unauthorised", ("reply_to", "not a status queue"), properties={"reply_to": "amq.gen-x"}),
    Bad("reply to an agent", "unauthorised", ("reply_to",), properties={"reply_to": "agent.lab"}),
    Bad("reply to the alerts", "unauthorised", ("reply_to",), properties={"reply_to": "alerts"}),
    Bad("cancel of nothing", "invalid", ("order_id", "add"), body=b"{}", type="order.cancel.v1"),
    Bad("query from zero", "invalid", ("from_sequence",), body=b'{"order_id":"ORDER","from_sequence":0}',
        type="order.query.v1"),
]  # fmt: skip


@pytest.mark.parametrize("bad", REFUSED, ids=lambda bad: bad.name.replace(" ", "-"))
async def test_a_bad_message_is_refused_in_words_and_its_neighbours_are_accepted(
    bench: Workbench, sender: Sender, bad: Bad
) -> None:
    before, order_id, after = (new_id() for _ in range(3))
    good: list[dict[str, Any]] = [
        {"order_id": key, "workflow": "solo", "payload": {}} for key in (before, after)
    ]
    await sender.send(good[0])
    message_id = await sender.send(bad.content(order_id), bad.type, **bad.properties)
    await sender.send(good[1])
    letter = await bench.letter(message_id)
    assert (letter["reason"], letter["queue"], letter["client"]) == (
        bad.reason,
        "orders",
        sender.account.name,
    )
    for words in bad.says:
        assert words in letter["detail"]
    assert letter["body"] == bad.content(order_id)
    told = await sender.hears(status="rejected", submission=message_id)
    assert told["sequence"] == 0
    assert told["detail"] == f"{letter['reason']}: {letter['detail']}"
    for key in (before, after):
        await sender.hears(status="received", order_id=key)
    assert await bench.db.fetchval("select count(*) from orders where order_id = $1", order_id) == 0


async def test_every_refusal_raises_an_alert_and_leaves_a_copy(bench: Workbench, sender: Sender) -> None:
    message_id = await sender.send(b"hello")
    letter = await bench.letter(message_id)
    alert = await bench.alert(str(letter["id"]))
    assert alert["kind"] == "dead-letter"
    assert "not JSON" in alert["detail"]


async def test_a_message_without_a_user_is_kept_and_answered_to_nobody(
    bench: Workbench, sender: Sender
) -> None:
    order_id = new_id()
    message_id = await sender.send({"order_id": order_id, "workflow": "solo", "payload": {}}, user_id=None)
    letter = await bench.letter(message_id)
    assert (letter["reason"], letter["client"]) == ("unauthorised", None)
    assert "user_id" in letter["detail"]
    await bench.alert(str(letter["id"]))
    marker = await sender.send(b"x")
    await sender.hears(submission=marker)
    assert not [status for status in sender.heard if status["submission"] == message_id]


@pytest.mark.parametrize("queue", ["status", "agent.lab", "scheduler.replies", "alerts"])
async def test_a_refusal_is_never_written_to_a_queue_that_is_not_the_senders(
    bench: Workbench, sender: Sender, queue: str
) -> None:
    victim = await bench.sender(bench.suite.add_client("victim")) if queue == "status" else None
    target = f"status.{victim.account.name}" if victim else queue
    message_id = await sender.send({"order_id": new_id(), "workflow": "solo", "payload": {}}, reply_to=target)
    assert (await sender.hears(submission=message_id))["status"] == "rejected"
    if victim is not None:
        marker = await victim.send(b"x")
        await victim.hears(submission=marker)
        assert [status["submission"] for status in victim.heard] == [marker]
    assert await bench.db.fetchval("select count(*) from dead_letters where type = 'status.v1'") == 0


@pytest.mark.parametrize("message_id", ["a\x00b", "ä" * 120, "x" * 255, "\x00" * 255])
async def test_odd_message_ids_are_kept_and_told(bench: Workbench, sender: Sender, message_id: str) -> None:
    order_id = new_id()
    await sender.send({"order_id": order_id, "workflow": "nothing", "payload": {}}, message_id=message_id)
    told = await sender.hears(status="rejected", order_id=order_id)
    assert told["submission"] == message_id.replace("\x00", "\\0")
    await _told_once_and_for_all(bench, told["submission"])


async def _told_once_and_for_all(bench: Workbench, message_id: str) -> None:
    """The copy, the alert and the answer are confirmed: nothing sends them again and again."""
    letter = await bench.letter(message_id)
    await bench.alert(str(letter["id"]))

    async def is_sent() -> bool:
        query = "select count(*) from outbox where refs like '%' || $1 || '%'"
        count: int = await bench.db.fetchval(query, str(letter["id"]))
        return count == 0

    await eventually(is_sent, what="the end of the outbox row")


async def test_a_message_larger_than_any_that_services_send_is_kept_and_told_once(
    bench: Workbench, sender: Sender
) -> None:
    body = b"x" * (17 * 1024 * 1024)
    try:
        message_id = await sender.send(body)
    except ChannelPreconditionFailed as error:
        pytest.skip(f"this broker takes no such message: {error}")  # RabbitMQ 4: 16 MiB, as services send
    told = await sender.hears(submission=message_id, status="rejected")
    assert told["detail"].startswith(f"too_large: body: {len(body)} bytes")
    await _told_once_and_for_all(bench, message_id)
    assert (await bench.letter(message_id))["body"] == body


async def test_a_cancel_with_a_message_id_that_postgres_refuses_does_not_loop(
    bench: Workbench, sender: Sender
) -> None:
    order_id = new_id()
    for key in (new_id(), order_id):
        await sender.send({"order_id": key, "workflow": "solo", "payload": {}})
    await sender.send({"order_id": order_id}, "order.cancel.v1", message_id=f"{order_id}\x00")
    letter = await bench.letter(f"{order_id}\\0")
    assert letter["reason"] == "refused_by_store"
    await sender.hears(order_id=order_id, status="completed")


async def test_the_same_bad_message_again_is_kept_once_and_told_again(
    bench: Workbench, sender: Sender
) -> None:
    for _ in range(3):
        await sender.send(b"again", message_id="bad-again")
    marker = await sender.send(b"x")
    await sender.hears(submission=marker)
    await sender.hears_times(3, submission="bad-again")
    assert await bench.db.fetchval("select count(*) from dead_letters where message_id = 'bad-again'") == 1


async def test_two_clients_that_send_the_same_bad_message_are_told_each_for_itself(
    bench: Workbench, sender: Sender
) -> None:
    other, message_id = await bench.sender(), new_id()
    for one in (sender, other):
        await one.send(b"the same", message_id=message_id)
        await one.hears(submission=message_id, status="rejected")
    query = "select client from dead_letters where message_id = $1"
    clients = {row["client"] for row in await bench.db.fetch(query, message_id)}
    assert clients == {sender.account.name, other.account.name}


async def test_a_full_batch_of_bad_messages_around_good_ones_loses_none_of_either(
    bench: Workbench, sender: Sender
) -> None:
    good = [new_id() for _ in range(30)]
    sent = []
    for place, order_id in enumerate(good):
        await sender.send({"order_id": order_id, "workflow": "solo", "payload": {}})
        if place % 3 == 0:
            # Refused by the store, after the whole batch was.
            await sender.send({"order_id": order_id}, "order.cancel.v1", message_id=f"{order_id}\x00")
            sent.append(f"{order_id}\\0")
        if place % 3 == 1:
            sent.append(await sender.send({"order_id": new_id(), "workflow": "solo", "payload": []}))
    for order_id in good:
        await sender.hears(order_id=order_id, status="completed")
    for message_id in sent:
        await sender.hears(submission=message_id, status="rejected")
