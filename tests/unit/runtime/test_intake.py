"""What came back is handled alone; what is new, together."""

from __future__ import annotations

import pytest

from tests.unit.runtime.deliveries import delivery
from triumvir.runtime.intake import _first_group


@pytest.mark.parametrize(
    ("redelivered", "group"),
    [("nnnn", 4), ("n", 1), ("r", 1), ("rnnn", 1), ("nnrn", 2), ("rrrr", 1), ("nnnr", 3)],
)
def test_a_group_ends_before_the_first_delivery_that_came_back(redelivered: str, group: int) -> None:
    deliveries = [delivery(redelivered=letter == "r") for letter in redelivered]
    assert _first_group(deliveries) == deliveries[:group]
