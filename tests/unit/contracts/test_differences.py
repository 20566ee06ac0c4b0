"""Two submissions beside each other: each place where they differ, and none where they do not."""

from __future__ import annotations

from typing import Any

import pytest

from triumvir.contracts.differences import Difference, differences
from triumvir.contracts.identity import as_submitted, digest

ACCEPTED = {
    "workflow": "trade",
    "version": None,
    "payload": {"lines": [{"price": 10}, {"price": 3}], "to": "A"},
}


@pytest.mark.parametrize(
    ("accepted", "dead", "expected"),
    [
        (1, 1.0, []),
        (0, -0.0, []),
        (1, True, [("$", "changed", 1, True)]),
        (0, None, [("$", "changed", 0, None)]),
        ("1", 1, [("$", "changed", "1", 1)]),
        ([], {}, [("$", "changed", [], {})]),
        ({"a": 1}, {"a": 2}, [("$.a", "changed", 1, 2)]),
        ({"a": None}, {}, [("$.a", "missing", None, None)]),
        ({}, {"a": None}, [("$.a", "added", None, None)]),
        ([1, 2], [1], [("$[1]", "missing", 2, None)]),
        ([1], [1, [2]], [("$[1]", "added", None, [2])]),
        ({"a": [{"b": [1]}]}, {"a": [{"b": [2]}]}, [("$.a[0].b[0]", "changed", 1, 2)]),
        ({"": 1, "a.b": 1, 'q"q': 1, "π": 1}, {}, [
            ('$[""]', "missing", 1, None), ('$["a.b"]', "missing", 1, None),
            ('$["q\\"q"]', "missing", 1, None), ('$["π"]', "missing", 1, None),
        ]),
        ({"a": {"x": 1}}, {"a": [1]}, [("$.a", "changed", {"x": 1}, [1])]),
    ],
)  # fmt: skip
def test_each_difference_has_its_path_and_both_values(
    accepted: Any, dead: Any, expected: list[tuple[Any, ...]]
) -> None:
    assert list(differences(accepted, dead)) == [Difference(*each) for each in expected]


def test_differences_come_in_the_order_of_the_accepted_document_and_additions_last() -> None:
    dead = {"workflow": "trade", "version": 1, "payload": {"gift": True, "lines": [{"price": 12}], "to": "A"}}
    assert [(found.path, found.kind) for found in differences(ACCEPTED, dead)] == [
        ("$.version", "changed"),
        ("$.payload.lines[0].price", "changed"),
        ("$.payload.lines[1]", "missing"),
        ("$.payload.gift", "added"),
    ]


@pytest.mark.parametrize("submitted", [None, 3])
def test_the_version_as_submitted_is_found_again_by_the_digest(submitted: int | None) -> None:
    identity = {"workflow": "trade", "version": submitted, "payload": {"x": 1.0}}
    assert as_submitted("trade", 3, {"x": 1}, digest(identity)) == {
        "workflow": "trade", "version": submitted, "payload": {"x": 1},
    }  # fmt: skip
