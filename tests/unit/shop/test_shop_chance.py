from __future__ import annotations

from collections import Counter

from shop.services.chance import HANG_SECONDS, LAST_FLAKY_UNDO_CALL, RATES, Fault, conduct, is_unlucky

KEYS = [f"shop/{number}/charge/do/0" for number in range(4000)]


def test_one_seed_gives_the_same_conduct_in_any_order_of_calls() -> None:
    forwards = [conduct(7, key, call) for key in KEYS[:50] for call in (1, 2, 3)]
    backwards = [conduct(7, key, call) for key in reversed(KEYS[:50]) for call in (3, 2, 1)]
    assert forwards == backwards[::-1]


def test_another_seed_and_another_call_go_another_way() -> None:
    first = [conduct(7, key, 1) for key in KEYS[:50]]
    assert first != [conduct(8, key, 1) for key in KEYS[:50]]
    assert first != [conduct(7, key, 2) for key in KEYS[:50]]


def test_the_shares_add_up_and_every_fault_occurs() -> None:
    assert abs(sum(RATES.values()) - 1) < 1e-9
    seen = Counter(conduct(7, key, 1).fault for key in KEYS)
    assert set(seen) == set(Fault)
    assert 0.89 < seen[Fault.NONE] / len(KEYS) < 0.94


def test_only_a_hang_takes_longer_than_a_fifth_of_a_second() -> None:
    for key in KEYS:
        how = conduct(7, key, 1)
        assert (how.delay == HANG_SECONDS) if how.fault is Fault.HANG else (0 < how.delay <= 0.2)


def test_an_undo_goes_well_in_the_end() -> None:
    assert {conduct(7, key, LAST_FLAKY_UNDO_CALL + 1, undo=True).fault for key in KEYS} == {Fault.NONE}
    assert len({conduct(7, key, 1, undo=True).fault for key in KEYS}) > 1


def test_about_the_stated_share_is_unlucky_and_always_the_same_keys() -> None:
    unlucky = [key for key in KEYS if is_unlucky(7, key, 0.03)]
    assert unlucky == [key for key in KEYS if is_unlucky(7, key, 0.03)]
    assert 0.02 < len(unlucky) / len(KEYS) < 0.04
