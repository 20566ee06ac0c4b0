"""Messages made of rows: who is told what, under which id, and in a form that can be sent."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.unit.runtime.deliveries import delivery
from triumvir.broker.sendable import MAX_BODY, fault_of
from triumvir.contracts.codec import decode
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import StepExecute
from triumvir.errors import ContractError
from triumvir.lifecycle import OrderRecord, SendRequest, StepRecord
from triumvir.runtime import letters, outgoing
from triumvir.runtime.outgoing import DeadLetter, StatusFact
from triumvir.workflow import Step, Workflow

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LOCK = UUID(int=7)
WORKFLOW = Workflow(
    "trio",
    1,
    [
        Step("a", agent="lab", operation="a", undo="un-a"),
        Step("b", agent="other", operation="b", undo="un-b"),
    ],
)
REFUSAL = ContractError("invalid", "payload", "is not an object", "send a JSON object")


def _order(**changed: Any) -> OrderRecord:
    members: dict[str, Any] = {
        "no": 5,
        "client": "shop-a",
        "order_id": "one",
        "workflow": "trio",
        "version": 1,
        "state": "processing",
        "locked_by": LOCK,
        "fence": 10,
        "attempt": 2,
        "step": 2,
        "complete_by": NOW + timedelta(seconds=9),
        "steps": (StepRecord(1, 1, "completed", 1, "certain", '{"x": 1.0}'), StepRecord(2, 2)),
        **changed,
    }
    return OrderRecord(**members)


def _letter(**changed: Any) -> DeadLetter:
    return letters.refused(delivery(**changed), REFUSAL, client=changed.get("user_id", "shop-a"))


def test_a_request_carries_all_its_operation_needs() -> None:
    message = outgoing.request(_order(), WORKFLOW, SendRequest(2, "do", 10), '{"p": 1.50}', NOW, 3)
    assert (message.routing_key, message.type) == ("agent.other", "step.execute.v1")
    assert message.message_id == "shop-a/one/b/do/2"
    body = json.loads(message.body)
    assert body["results"] == {"a": {"x": 1.0}}
    assert (body["time_left_ms"], body["attempts_allowed"], body["retry"]) == (9000, 3, 0)
    assert body["idempotency_key"] == "shop-a/one/b/do/0"
    assert (body["lock"], body["fence"], body["order_no"], body["step_no"]) == (str(LOCK), 10, 5, 2)
    assert b'"payload":{"p": 1.50}' in message.body, "the text goes out as it came in"


@pytest.mark.parametrize("selected", ['{"total":7}', "null", "false", "0", '""', "[]"])
def test_a_request_carries_what_its_step_selects_instead_of_the_payload(selected: str) -> None:
    send = SendRequest(2, "do", 10, argument=JsonText(text=selected))
    message = outgoing.request(_order(), WORKFLOW, send, '{"p": 1.50}', NOW, 3)
    assert json.loads(message.body)["payload"] == json.loads(selected)
    received = decode(message.type, message.body)
    assert isinstance(received, StepExecute)
    assert received.payload.text == selected


def test_a_request_sent_again_is_the_same_message_with_another_retry_number() -> None:
    first = outgoing.request(_order(), WORKFLOW, SendRequest(2, "do", 10), "{}", NOW, 3)
    again = outgoing.request(_order(), WORKFLOW, SendRequest(2, "do", 10, 1), "{}", NOW, 3)
    assert first.message_id == again.message_id
    assert json.loads(first.body) | {"retry": 1} == json.loads(again.body)


def test_a_request_that_waited_past_its_deadline_has_no_time_left() -> None:
    late = outgoing.request(_order(), WORKFLOW, SendRequest(2, "do", 10), "{}", NOW + timedelta(hours=1), 3)
    assert json.loads(late.body)["time_left_ms"] == 0


def test_an_undo_carries_what_is_known_and_a_key_of_its_generation() -> None:
    steps = (StepRecord(1, 1, "completed", 1, "certain", '"r"', None, "undoing", 0, 2),)
    order = _order(state="compensating", step=1, steps=steps)
    message = outgoing.request(order, WORKFLOW, SendRequest(1, "undo", 10), "{}", NOW, 3)
    body = json.loads(message.body)
    assert (message.type, body["operation"], body["effect"], body["result"]) == (
        "step.compensate.v1", "un-a", "certain", "r",
    )  # fmt: skip
    assert body["idempotency_key"] == "shop-a/one/a/undo/2"
    assert body["results"] == {}


def test_a_step_that_is_not_being_run_has_no_request() -> None:
    for order in (_order(locked_by=None), _order(complete_by=None), _order(steps=())):
        with pytest.raises(LookupError, match="no do of step 2 is under way"):
            outgoing.request(order, WORKFLOW, SendRequest(2, "do", 10), "{}", NOW, 3)


def _fact(**changed: Any) -> StatusFact:
    members: dict[str, Any] = {
        "no": 5, "client": "shop-a", "order_id": "one", "workflow": "trio", "version": 1,
        "status_queue": "status.shop-a.two", "trace": None, "n": 7, "at": NOW, "why": "because", "step_no": None,
        "status": "completed", "sequence": 3, "result": '{"x": 1.0}', **changed,
    }  # fmt: skip
    return StatusFact(**members)


def test_a_status_goes_to_the_queue_of_its_order_under_its_number() -> None:
    message = outgoing.status(_fact(), "b")
    assert (message.routing_key, message.message_id) == ("status.shop-a.two", "shop-a/one/completed/3")
    body = json.loads(message.body)
    assert (body["status"], body["sequence"], body["step"]) == ("completed", 3, "b")
    assert b'"result":{"x": 1.0}' in message.body


def test_a_history_row_that_was_not_told_has_no_status() -> None:
    with pytest.raises(LookupError, match="was not told"):
        outgoing.status(_fact(status=None, sequence=None), None)


@pytest.mark.parametrize(
    ("reply_to", "queue"),
    [
        (None, "status.shop-a"),
        ("status.shop-a", "status.shop-a"),
        ("status.shop-a.two", "status.shop-a.two"),
        ("status.shop-b", "status.shop-a"),
        ("status.shop-a.x.y", "status.shop-a"),
        ("agent.lab", "status.shop-a"),
        ("alerts", "status.shop-a"),
        ("", "status.shop-a"),
    ],
)
def test_f61_a_refusal_is_told_to_a_queue_of_its_sender_and_no_other(
    reply_to: str | None, queue: str
) -> None:
    message = outgoing.rejected(_letter(reply_to=reply_to), "one")
    assert message is not None
    assert message.routing_key == queue
    assert json.loads(message.body)["detail"] == ("invalid: payload: is not an object; send a JSON object")


@pytest.mark.parametrize("changed", [{"user_id": None}, {"user_id": "No_Client"}, {"queue": "agent.lab"}])
def test_without_a_client_there_is_nobody_to_tell(changed: dict[str, Any]) -> None:
    assert outgoing.rejected(_letter(**changed), "one") is None


@pytest.mark.parametrize("text", ["x" * 255, "\U0001f600" * 255, "\x00" * 255, "a\ud800b", ""])
def test_whatever_a_client_wrote_into_its_properties_can_be_sent_back(text: str) -> None:
    order_id = text.encode("utf-8", "replace").decode()[:100]
    body = json.dumps({"order_id": order_id}).encode()
    letter = _letter(
        body=body, message_id=text, type=text, correlation_id=text, headers={"a": text, text: b"\xff"}
    )
    for message in letters.messages(letter):
        assert fault_of(message, "services", MAX_BODY) is None


def test_a_copy_of_what_is_too_large_to_send_says_how_much_is_left_out() -> None:
    copy = outgoing.letter_copy(_letter(body=b"x" * (MAX_BODY + 1)))
    assert (copy.body, copy.headers["triumvir-bytes-left-out"]) == (b"", str(MAX_BODY + 1))
    assert outgoing.letter_copy(_letter(body=b"x" * MAX_BODY)).body == b"x" * MAX_BODY


def test_a_letter_becomes_the_delivery_it_came_as_from_the_client_it_was_recorded_with() -> None:
    came = delivery(headers={"traceparent": "00-1"}, correlation_id="c", reply_to="status.shop-a.two")
    again = letters.delivery_of(letters.refused(came, REFUSAL, client="shop-a"))
    for name in (
        "queue",
        "body",
        "message_id",
        "type",
        "correlation_id",
        "user_id",
        "reply_to",
        "content_type",
    ):
        assert getattr(again, name) == getattr(came, name)
    assert again.headers == came.headers
    assert letters.delivery_of(letters.refused(came, REFUSAL)).user_id is None, (
        "nobody is trusted by its letter"
    )


def test_the_same_message_has_the_same_letter_and_another_one_another() -> None:
    one = _letter()
    assert one.id == _letter().id
    others = [
        letters.letter_of(delivery(), "full", "no room"),
        _letter(user_id="shop-b"),
        _letter(type="order.cancel.v1"),
        _letter(message_id="m-2"),
        _letter(body=b"[]"),
        _letter(queue="agent.lab"),
    ]
    assert len({one.id, *(other.id for other in others)}) == 7


def test_an_answer_names_what_it_answers() -> None:
    message = outgoing.answer("status.shop-a", "shop-a", "one", "unknown_order", None, "there is none", NOW)
    assert message.message_id == "unknown_order/shop-a/one"
    assert json.loads(message.body)["sequence"] == 0


def test_json_texts_are_not_spelled_anew() -> None:
    assert JsonText(text='{"a": 1.0}').text == '{"a": 1.0}'
