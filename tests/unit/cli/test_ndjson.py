"""Lines of an orders file: which are submissions, and what is said of the others."""

from __future__ import annotations

import pytest

from triumvir.cli import ndjson
from triumvir.errors import ContractError


def test_a_line_with_a_payload_carries_everything() -> None:
    line = (
        b'{"order_id":"1","payload":{"a": 1.10},"workflow":"w","version":2,"priority":3,'
        b'"not_before":"2026-01-01T00:00:00Z","progress":true}'
    )
    found = ndjson.submission_of(line, "other")
    assert (found.workflow, found.order_id, found.version, found.priority) == ("w", "1", 2, 3)
    assert found.progress
    assert found.not_before is not None
    assert b'"payload":{"a": 1.10}' in found.body()[1]


def test_a_bare_payload_is_sent_as_it_stands() -> None:
    found = ndjson.submission_of(b'{"order_id":"536365", "total": 1.10}\n', "order-fulfilment")
    assert (found.workflow, found.order_id) == ("order-fulfilment", "536365")
    assert b'{"order_id":"536365", "total": 1.10}' in found.body()[1]


@pytest.mark.parametrize(
    ("line", "workflow", "named"),
    [
        (b"nonsense", "w", "not JSON"),
        (b"[1]", "w", "not JSON"),
        (b"\xff\xfe", "w", "UTF-8"),
        (b'{"a":1}', "w", "order_id: is missing"),
        (b'{"order_id":5}', "w", "order_id: is 5, not text"),
        (b'{"order_id":"1"}', None, "workflow: is not named"),
        (b'{"order_id":"1","payload":{}}', None, "workflow: is not named"),
        (b'{"order_id":"1","payload":{},"prio":1}', "w", "prio: is not known"),
        (b'{"order_id":"1","payload":{},"not_before":"tomorrow"}', "w", "not_before"),
        (b'{"order_id":"1","a":1,"a":2}', "w", "stands twice"),
        (b'{"order_id":"1","a":NaN}', "w", "NaN"),
    ],
)
def test_a_bad_line_names_its_fault(line: bytes, workflow: str | None, named: str) -> None:
    with pytest.raises(ContractError, match=named):
        ndjson.submission_of(line, workflow)


def test_lines_are_numbered_as_an_editor_does_and_blank_ones_skipped() -> None:
    lines = list(ndjson.read([b'{"order_id":"1"}\n', b"\n", b"oops\n", b'{"order_id":"2"}'], "w"))
    assert [line.number for line in lines] == [1, 3, 4]
    assert [line.submission is not None for line in lines] == [True, False, True]
