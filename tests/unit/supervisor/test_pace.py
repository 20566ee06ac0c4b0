"""How many orders a supervisor moves on, by what it saved up, and by how many share the rate."""

from __future__ import annotations

import doctest

import pytest

from triumvir_supervisor import pace, parking
from triumvir_supervisor.pace import Pace


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_examples_hold() -> None:
    for module in (pace, parking):
        failed, tried = doctest.testmod(module)
        assert tried > 0
        assert failed == 0


@pytest.mark.parametrize("sharers", [1, 2, 5])
def test_in_the_long_run_all_of_them_together_recover_no_more_than_the_rate(sharers: int) -> None:
    clock = Clock()
    fleet = [Pace(30, 100, clock) for _ in range(sharers)]
    recovered = 0
    for _ in range(100):
        for each in fleet:
            allowed = each.allowance(sharers)
            each.spend(allowed)
            recovered += allowed
        clock.now += 0.7
    assert 30 * 99 * 0.7 - sharers <= recovered <= 30 * (99 * 0.7 + 1)


@pytest.mark.parametrize("sharers", [1, 2, 5])
def test_what_was_saved_up_while_nothing_was_overdue_is_one_scan_for_all_together(sharers: int) -> None:
    clock = Clock()
    fleet = [Pace(30, 100, clock) for _ in range(sharers)]
    clock.now += 3600
    assert sum(each.allowance(sharers) for each in fleet) == 100


def test_a_rate_below_one_a_second_is_kept_too() -> None:
    clock = Clock()
    slow = Pace(0.25, 100, clock)
    allowed = []
    for _ in range(12):
        clock.now += 1
        now = slow.allowance(1)
        slow.spend(now)
        allowed.append(now)
    assert sum(allowed) == 3


def test_so_many_share_it_that_less_than_one_is_left_and_still_each_moves_on() -> None:
    clock = Clock()
    one = Pace(100, 3, clock)
    clock.now += 60
    assert one.allowance(8) == 1
