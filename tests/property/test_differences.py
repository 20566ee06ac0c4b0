"""Values differ exactly where their canonical forms do: what `dead show` says and what a conflict is are one thing."""

from __future__ import annotations

import copy
from typing import Any

import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from triumvir.contracts.differences import Difference, differences

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, -0.0, 1.0, 0.5])
    | st.text(max_size=2)
)
NAMES = st.sampled_from(["a", "b", "a.b", "[0]", "", '"'])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_nothing_differs_exactly_when_the_canonical_forms_are_equal(one: Any, other: Any) -> None:
    assert (list(differences(one, other)) == []) == (rfc8785.dumps(one) == rfc8785.dumps(other))


@given(VALUES)
def test_a_value_does_not_differ_from_its_copy(value: Any) -> None:
    assert list(differences(value, copy.deepcopy(value))) == []


@given(VALUES, VALUES)
def test_seen_from_the_other_side_the_same_places_differ(one: Any, other: Any) -> None:
    turned = {"added": "missing", "missing": "added", "changed": "changed"}
    there = {(found.path, found.kind) for found in differences(one, other)}
    back = {(found.path, turned[found.kind]) for found in differences(other, one)}
    assert there == back


@given(VALUES, VALUES)
def test_no_two_differences_have_one_path(one: Any, other: Any) -> None:
    found: list[Difference] = list(differences(one, other))
    assert len({each.path for each in found}) == len(found)
