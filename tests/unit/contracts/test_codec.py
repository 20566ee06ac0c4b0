from __future__ import annotations

import json

import pytest

from tests.unit.contracts.samples import SAMPLES, golden_file
from triumvir.contracts.codec import decode, decode_strictly, encode, types
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import OrderQuery, OrderSubmit, StepExecute
from triumvir.errors import ContractError

LIMITS = {"max_bytes": 1000, "max_depth": 8}
EVERY_TYPE = sorted(types())


def test_every_type_has_a_sample_and_a_golden_file() -> None:
    assert sorted(SAMPLES) == EVERY_TYPE
    assert sorted(path.stem for path in golden_file("any").parent.glob("*.json")) == EVERY_TYPE


@pytest.mark.parametrize("type_", EVERY_TYPE)
def test_the_body_on_the_wire_is_the_golden_one(type_: str) -> None:
    assert json.loads(encode(SAMPLES[type_])) == json.loads(golden_file(type_).read_text())


@pytest.mark.parametrize("type_", EVERY_TYPE)
def test_the_golden_body_is_read_as_the_message_it_was(type_: str) -> None:
    assert decode(type_, golden_file(type_).read_bytes()) == SAMPLES[type_]


@pytest.mark.parametrize("type_", EVERY_TYPE)
def test_a_message_comes_back_as_it_was_sent(type_: str) -> None:
    assert decode(type_, encode(SAMPLES[type_])) == SAMPLES[type_]


@pytest.mark.parametrize("type_", EVERY_TYPE)
def test_a_member_that_a_later_release_adds_is_ignored(type_: str) -> None:
    body = json.loads(encode(SAMPLES[type_])) | {"added_later": {"x": 1}}
    assert decode(type_, json.dumps(body).encode()) == SAMPLES[type_]


def test_a_payload_goes_out_as_the_text_that_came_in() -> None:
    body = b'{"order_id": "1", "workflow": "w", "payload": {"price": 1.50, "big": 1E2 ,"e": "\\u00e9"}}'
    submitted = decode_strictly(OrderSubmit, body, **LIMITS)
    assert submitted.payload.text == '{"price": 1.50, "big": 1E2 ,"e": "\\u00e9"}'
    assert b'{"price": 1.50, "big": 1E2 ,"e": "\\u00e9"}' in encode(submitted)


def test_a_payload_given_as_a_value_goes_out_as_compact_json() -> None:
    submitted = OrderSubmit(order_id="1", workflow="w", payload=JsonText.of({"a": [1, None, "é"]}))
    assert '"payload":{"a":[1,null,"é"]}'.encode() in encode(submitted)


def test_an_unknown_type_is_refused_by_name() -> None:
    with pytest.raises(ContractError, match=r"'step\.execute\.v9' is not known") as caught:
        decode("step.execute.v9", b"{}")
    assert caught.value.reason == "unknown_type"


def test_a_missing_type_is_refused() -> None:
    with pytest.raises(ContractError, match="None is not known"):
        decode(None, b"{}")


@pytest.mark.parametrize(
    "body, reason, field",
    [
        (b"", "invalid", "body"),
        (b"[]", "invalid", "body"),
        (b"\xff\xfe", "invalid", "body"),
        (b'{"order_id": "1", "workflow": "w"}', "invalid", "payload"),
        (b'{"order_id": "a b", "workflow": "w", "payload": {}}', "invalid", "order_id"),
        (b'{"order_id": "", "workflow": "w", "payload": {}}', "invalid", "order_id"),
        (b'{"order_id": "1", "workflow": "W", "payload": {}}', "invalid", "workflow"),
        (b'{"order_id": "1", "workflow": "w\\n", "payload": {}}', "invalid", "workflow"),
        (b'{"order_id": "1", "workflow": "w", "payload": {}, "version": 0}', "invalid", "version"),
        (b'{"order_id": "1", "workflow": "w", "payload": {}, "priority": 1001}', "invalid", "priority"),
        (b'{"order_id": "1", "workflow": "w", "payload": {}, "not_before": "2026-01-01"}', "invalid", "not_before"),
        (b'{"order_id": "1", "workflow": "w", "payload": ' + b"[" * 9 + b"]" * 9 + b"}", "too_deep", "body"),
        (b'{"order_id": "1", "workflow": "w", "payload": "' + b"x" * 1000 + b'"}', "too_large", "body"),
    ],
)  # fmt: skip
def test_a_bad_submission_is_refused_with_the_field_and_the_fix(body: bytes, reason: str, field: str) -> None:
    with pytest.raises(ContractError) as caught:
        decode_strictly(OrderSubmit, body, **LIMITS)
    assert (caught.value.reason, caught.value.field) == (reason, field)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ('"priority": "5"', "priority: is no whole number (got '5'); send a number, without quotes"),
        ('"priority": true', "priority: is no whole number (got 'True'); send a number"),
        ('"priority": 1.5', "priority: should be a valid integer"),
        (
            '"priority": 1001',
            "priority: should be less than or equal to 1000 (got '1001'); send 1000 or less",
        ),
        ('"version": "1"', "version: is no whole number (got '1')"),
        ('"progress": "yes"', "progress: is neither true nor false (got 'yes'); send true or false"),
        ('"progress": 1', "progress: is neither true nor false (got '1')"),
        ('"not_before": 5', "not_before: is no time (got '5'); send ISO 8601 with a zone"),
        ('"not_before": "soon"', "; send ISO 8601 with a zone, such as 2030-01-31T09:00:00Z"),
        ('"not_before": "2030-01-31T09:00:00"', "; send ISO 8601 with a zone, such as 2030-01-31T09:00:00Z"),
        ('"not_before": "0001-01-01T00:00:00+14:00"', "not_before: is beyond what can be kept"),
        ('"not_before": "9999-12-31T23:59:59-14:00"', "; name a time between the years 1 and 9999, in UTC"),
        ('"extra": {"a": [1, "x\\u0000"]}', "extra.a[1]: holds a NUL character"),
        ('"extra": {"a": {"\\ud800": 1}}', "extra.a.\\ud800: holds a lone surrogate; send valid Unicode"),
        ('"extra": [1e999]', "extra: the number 1e999 is beyond an IEEE double; send it as a string"),
        ('"extra": NaN', "extra: the number NaN is not JSON"),
    ],
)
def test_what_is_wrong_with_a_member_is_said_with_its_name_and_the_fix(member: str, said: str) -> None:
    body = f'{{"order_id": "1", "workflow": "w", "payload": {{}}, {member}}}'
    with pytest.raises(ContractError) as caught:
        decode_strictly(OrderSubmit, body.encode(), **LIMITS)
    assert said in str(caught.value)
    assert "Value error" not in str(caught.value)


@pytest.mark.parametrize(
    ("number", "fix"), [("0", "send 1 or more"), (str(2**31), "send less than 2147483648")]
)
def test_a_sequence_number_out_of_range_is_answered_with_the_range(number: str, fix: str) -> None:
    with pytest.raises(ContractError, match=fix):
        decode_strictly(OrderQuery, f'{{"order_id": "1", "from_sequence": {number}}}'.encode(), **LIMITS)


def test_a_request_that_lacks_its_fence_is_refused() -> None:
    body = json.loads(encode(SAMPLES[StepExecute.TYPE]))
    del body["fence"]
    with pytest.raises(ContractError, match="fence: Field required; add 'fence'"):
        decode(StepExecute.TYPE, json.dumps(body).encode())
