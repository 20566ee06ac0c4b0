"""Statuses in order, whatever the queue does to them; time is a number here."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from triumvir.client.sequence import HOLD_BACK, Sequence
from triumvir.contracts.messages import Status


def status(number: int) -> Status:
    return Status(order_id="1", status="received", sequence=number, at=datetime.now(UTC))


def numbers(statuses: list[Status]) -> list[int]:
    return [status.sequence for status in statuses]


def test_statuses_in_order_are_given_out_at_once() -> None:
    sequence = Sequence()
    assert [numbers(sequence.add(status(n), 0.0)) for n in (1, 2, 3)] == [[1], [2], [3]]
    assert sequence.question_due is None


def test_a_later_one_is_held_back_until_the_missing_one_comes() -> None:
    sequence = Sequence()
    assert sequence.add(status(2), 0.0) == []
    assert numbers(sequence.add(status(1), 1.0)) == [1, 2]
    assert sequence.question_due is None


def test_a_doubled_one_is_given_out_once() -> None:
    sequence = Sequence()
    sequence.add(status(1), 0.0)
    assert sequence.add(status(1), 0.0) == []
    sequence.add(status(3), 0.0)
    assert sequence.add(status(3), 0.0) == []
    assert numbers(sequence.add(status(2), 0.0)) == [2, 3]


def test_after_two_seconds_a_gap_is_asked_about_once_from_the_missing_number() -> None:
    sequence = Sequence()
    sequence.add(status(1), 0.0)
    sequence.add(status(4), 10.0)
    assert sequence.question_due == 10.0 + HOLD_BACK
    assert sequence.question(10.0 + HOLD_BACK - 0.01) is None
    assert sequence.question(10.0 + HOLD_BACK) == 2
    assert sequence.question(100.0) is None
    sequence.add(status(5), 100.0)
    assert sequence.question_due is None, "the same gap was asked about already"


def test_a_second_gap_is_asked_about_as_well() -> None:
    sequence = Sequence()
    sequence.add(status(2), 0.0)
    sequence.add(status(4), 0.0)
    assert sequence.question(2.0) == 1
    assert numbers(sequence.add(status(1), 3.0)) == [1, 2]
    assert sequence.question(3.0 + HOLD_BACK) == 3


def test_after_a_lost_connection_it_is_asked_again_without_a_gap() -> None:
    sequence = Sequence()
    sequence.add(status(1), 0.0)
    sequence.ask_at(5.0)
    assert sequence.question(5.0) == 2
    assert sequence.question(6.0) is None


def test_what_nobody_has_any_more_is_skipped() -> None:
    sequence = Sequence()
    sequence.add(status(3), 0.0)
    sequence.add(status(5), 0.0)
    assert numbers(sequence.release()) == [3, 5]
    assert sequence.question_due is None
    assert numbers(sequence.add(status(6), 1.0)) == [6]


@given(st.permutations(range(1, 9)), st.lists(st.integers(1, 8)))
def test_any_order_with_any_doubles_comes_out_as_one_to_n(order: list[int], doubles: list[int]) -> None:
    sequence = Sequence()
    given_out: list[int] = []
    for moment, number in enumerate([*order, *doubles]):
        given_out += numbers(sequence.add(status(number), float(moment)))
    assert given_out == list(range(1, 9))
    assert sequence.held == ()
    assert sequence.question_due is None
