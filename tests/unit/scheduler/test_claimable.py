"""Why the claim loop looks: named orders are enough only if nothing asked for a look at everything."""

from __future__ import annotations

from triumvir_scheduler.claimable import Claimable


def _looked_once() -> Claimable:
    claimable = Claimable()
    claimable.take()
    return claimable


def test_the_first_look_is_at_everything_whatever_was_named() -> None:
    claimable = Claimable()
    claimable.name([1])
    assert claimable.is_set()
    assert claimable.take() == []


def test_named_orders_are_taken_once_each() -> None:
    claimable = _looked_once()
    claimable.name([2, 1])
    claimable.name([2])
    assert claimable.is_set()
    assert claimable.take() == [1, 2]
    assert claimable.take() == []


def test_a_wake_without_a_name_asks_for_a_look_at_everything() -> None:
    claimable = _looked_once()
    claimable.name([1])
    claimable.set()
    assert claimable.take() == []
    claimable.name([2])
    assert claimable.take() == [2]
