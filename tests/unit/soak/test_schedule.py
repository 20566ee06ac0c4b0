"""The plan of a soak is its seed's, and has everything in it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.soak.actions import ACTIONS
from tests.soak.schedule import STRANDS, planned

SEEDS = range(20)
TEN_MINUTES = 600
LONGEST = max(strand.between[1] for strand in STRANDS.values())


def test_a_seed_names_its_faults_and_another_seed_others() -> None:
    plans = [planned(seed, TEN_MINUTES) for seed in SEEDS]
    assert plans == [planned(seed, TEN_MINUTES) for seed in SEEDS]
    for one, other in pairwise(plans):
        assert all(one[strand] != other[strand] for strand in STRANDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_shorter_soak_is_the_beginning_of_a_longer_one(seed: int) -> None:
    short, long = planned(seed, 60), planned(seed, TEN_MINUTES)
    for strand, faults in short.items():
        assert faults == long[strand][: len(faults)]
        assert sum(fault.waits + fault.lasts for fault in faults) > 60 - LONGEST


@pytest.mark.parametrize("seed", SEEDS)
def test_ten_minutes_have_every_sort_of_fault(seed: int) -> None:
    for name, faults in planned(seed, TEN_MINUTES).items():
        assert {fault.sort for fault in faults} == {sort.name for sort in STRANDS[name].sorts}


def test_whatever_is_planned_can_be_done() -> None:
    assert {sort.name for strand in STRANDS.values() for sort in strand.sorts} == set(ACTIONS)
