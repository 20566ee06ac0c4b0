"""What a process believes of orders that it wrote last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from msgspec.structs import replace

from triumvir.lifecycle import OrderRecord, StepRecord
from triumvir.runtime.recent import CLOCK_SECONDS, LARGEST, MOST_ORDERS, Recent

START = datetime(2030, 1, 1, tzinfo=UTC)


class World:
    """Connections made so far, and seconds on the process' own clock."""

    def __init__(self) -> None:
        self.connects = 1
        self.seconds = 0.0
        self.recent = Recent(lambda: self.connects, lambda: self.seconds)


@pytest.fixture
def world() -> World:
    return World()


def order(no: int, history: int = 3, result: str | None = None) -> OrderRecord:
    """One under an attempt."""
    steps = (StepRecord(1, 1, result=result),)
    return OrderRecord(
        no, "shop", f"o-{no}", "w", 1, "processing", uuid4(), 7, 1, 1, history=history, steps=steps
    )


def test_a_locked_order_is_believed_while_its_history_is_the_same(world: World) -> None:
    kept = [order(1), order(2)]
    world.recent.keep(kept)
    assert world.recent.still({1: 3, 2: 4, 9: 3}) == {1: kept[0]}


def test_the_last_write_is_what_is_known(world: World) -> None:
    world.recent.keep([order(1)])
    later = order(1, history=4)
    world.recent.keep([later])
    assert world.recent.all_of([1]) == {1: later}


def test_of_several_orders_all_or_none_are_known(world: World) -> None:
    world.recent.keep([order(1), order(2)])
    assert set(world.recent.all_of([2, 1]) or ()) == {1, 2}
    assert world.recent.all_of([1, 2, 3]) is None


def test_an_order_that_waits_for_no_answer_is_forgotten(world: World) -> None:
    """A hold of it is lifted without a history row."""
    world.recent.keep([order(1)])
    world.recent.keep([replace(order(1), state="pending", locked_by=None)])
    assert world.recent.all_of([1]) is None
    assert world.recent.still({1: 3}) == {}


def test_an_order_that_moved_elsewhere_is_forgotten(world: World) -> None:
    world.recent.keep([order(1), order(2)])
    world.recent.forget([1, 5])
    assert world.recent.all_of([1]) is None
    assert world.recent.all_of([2]) is not None


def test_after_a_new_connection_nothing_is_believed(world: World) -> None:
    world.recent.keep([order(1)])
    world.recent.note(START)
    world.connects += 1
    assert world.recent.still({1: 3}) == {}
    assert world.recent.all_of([1]) is None
    assert world.recent.now() is None


def test_memory_is_bounded_by_number_and_by_size(world: World) -> None:
    world.recent.keep(order(no) for no in range(MOST_ORDERS + 2))
    assert world.recent.all_of([1]) is None, "the oldest"
    assert world.recent.all_of([2, MOST_ORDERS + 1]) is not None
    world.recent.keep([order(2, result="x" * (LARGEST + 1))])
    assert world.recent.all_of([2]) is None


def test_the_clock_goes_on_from_the_last_answer_and_only_so_long(world: World) -> None:
    assert world.recent.now() is None
    world.recent.note(START)
    world.seconds += CLOCK_SECONDS / 2
    assert world.recent.now() == START + timedelta(seconds=CLOCK_SECONDS / 2)
    world.seconds += CLOCK_SECONDS
    assert world.recent.now() is None


def test_an_answer_that_was_long_on_its_way_does_not_set_the_clock_back(world: World) -> None:
    world.recent.note(START)
    world.seconds += 0.5
    world.recent.note(START + timedelta(seconds=0.2))
    assert world.recent.now() == START + timedelta(seconds=0.5)
    world.recent.note(START + timedelta(seconds=0.6))
    assert world.recent.now() == START + timedelta(seconds=0.6)
