"""What would be refused at the door is refused before it is sent, in words."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from triumvir.client.submission import Submission, fingerprint
from triumvir.contracts.json_text import JsonText
from triumvir.errors import ContractError


class Line(BaseModel):
    sku: str
    at: datetime


def body(payload: Any, **members: Any) -> Any:
    return orjson.loads(Submission("w", payload, **{"order_id": "1", **members}).body()[1])


def test_a_model_goes_out_as_its_json() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert body(Line(sku="a", at=at))["payload"] == {"sku": "a", "at": "2026-01-01T00:00:00Z"}


def test_json_text_goes_out_as_it_stands() -> None:
    sent = Submission("w", JsonText(text='{"price": 1.10}'), "1").body()[1]
    assert b'{"price": 1.10}' in sent


@pytest.mark.parametrize(
    ("payload", "members", "named"),
    [
        ({}, {"order_id": "a b"}, "order_id"),
        ({}, {"order_id": ""}, "order_id"),
        ({}, {"workflow": "Big Name"}, "workflow"),
        ({}, {"priority": 5000}, "priority"),
        ({}, {"version": 0}, "version"),
        ({}, {"not_before": datetime(2026, 1, 1)}, "not_before"),  # noqa: DTZ001 - the fault under test
        ({"a": math.nan}, {}, "NaN"),
        ({"a": [None, {"b": math.inf}]}, {}, "NaN"),
        ({"a": 2**60}, {}, "IEEE double"),
        ({"a": 2**70}, {}, "payload"),
        ({"a": "x\x00"}, {}, "NUL"),
        ({"a": "\ud800"}, {}, "payload"),
        ({"a": object()}, {}, "payload"),
        ({1: "a"}, {}, "payload"),
        ([1], {}, "not an object"),
        ({"a": "x" * 262_140}, {}, "too_large: payload"),
        ({"a": "x" * 300_000}, {}, "too_large"),
    ],
)
def test_a_bad_submission_names_its_fault(payload: Any, members: dict[str, Any], named: str) -> None:
    parts: dict[str, Any] = {"workflow": "w", "order_id": "1", **members}
    with pytest.raises(ContractError, match=named):
        Submission(payload=payload, **parts).body()


def test_a_payload_that_is_too_deep_is_refused() -> None:
    nested: Any = "x"
    for _ in range(100):
        nested = [nested]
    with pytest.raises(ContractError, match="too_deep"):
        Submission("w", {"a": nested}, "1").body()


def test_null_is_no_nan() -> None:
    assert body({"a": None})["payload"] == {"a": None}


def test_equal_orders_have_equal_fingerprints() -> None:
    one = Submission("w", JsonText(text='{"a":1, "b":2}'), "1").body()[0]
    two = Submission("w", {"b": 2, "a": 1}, "1").body()[0]
    other = Submission("w", {"b": 2, "a": 2}, "1").body()[0]
    assert fingerprint(one) == fingerprint(two) != fingerprint(other)
