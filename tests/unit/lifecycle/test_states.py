from __future__ import annotations

from typing import get_args

from triumvir.lifecycle import ARROWS, END, LIVE, RESTING, STATUS_OF_STATE, is_legal
from triumvir.lifecycle.states import State


def test_every_state_has_its_arrows() -> None:
    assert set(ARROWS) == set(get_args(State)) == LIVE | RESTING | END


def test_no_arrow_leaves_an_end_but_a_late_success() -> None:
    left = {(before, after) for before in END for after in ARROWS[before]}
    assert left == {("compensated", "compensating"), ("cancelled", "compensating")}


def test_every_state_can_reach_an_end() -> None:
    reached = set(END)
    for _ in ARROWS:
        reached |= {before for before, after in ARROWS.items() if after & reached}
    assert reached == set(ARROWS)


def test_staying_is_legal_and_an_arrow_that_is_not_drawn_is_not() -> None:
    assert is_legal("processed", "processed")
    assert is_legal("pending", "processing")
    assert not is_legal("processed", "pending")
    assert not is_legal("pending", "compensated")


def test_the_client_is_told_of_every_state_it_can_wait_for() -> None:
    assert set(STATUS_OF_STATE) == END | RESTING | {"compensating"}
