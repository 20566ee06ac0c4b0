"""What is said of a definition that changed under its version."""

from __future__ import annotations

from datetime import timedelta

from triumvir.store.operators import differences
from triumvir.workflow import Step, Workflow

RESERVE = Step("reserve", agent="inventory", operation="reserve-stock", undo="release-stock")
CHARGE = Step("charge", agent="payments", operation="charge-card", undo="refund")
BEFORE = Workflow("w", version=1, steps=[RESERVE, CHARGE])


def after(*steps: Step, **members: str) -> list[str]:
    return differences(BEFORE, Workflow("w", version=1, steps=steps, **members))  # type: ignore[arg-type]


def test_equal_definitions_differ_in_nothing() -> None:
    assert after(RESERVE, CHARGE) == []


def test_a_changed_part_of_a_step_is_named_with_both_values() -> None:
    charge = Step("charge", agent="payments", operation="charge-card", complete_within=timedelta(seconds=5))
    assert after(RESERVE, charge) == [
        "step 'charge': undo was 'refund', is None",
        "step 'charge': complete_within was None, is 0:00:05",
    ]


def test_steps_that_came_or_went_are_named() -> None:
    ship = Step("ship", agent="shipping", operation="book-courier")
    assert after(RESERVE, ship) == ["step 'charge' is gone", "step 'ship' is new"]


def test_another_order_and_another_end_are_named() -> None:
    assert after(CHARGE, RESERVE, on_error="compensate") == [
        "on_error was 'halt', is 'compensate'",
        "the steps stood in the order reserve, charge",
    ]
