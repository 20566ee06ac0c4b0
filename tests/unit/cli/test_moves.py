"""What an operator is told of a move, when somebody else asks for one at the same time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from triumvir.cli import moves
from triumvir.errors import TriumvirError


def order(state: str, *whys: str) -> Any:
    """As much of an order as is looked at: its history begins with one row that was seen before."""
    rows = [SimpleNamespace(n=n, why=why) for n, why in enumerate(("received", *whys), start=1)]
    return SimpleNamespace(order=SimpleNamespace(state=state, history=len(rows)), history=rows)


SEEN = order("error")
NOW = order(
    "pending", "retried by operator:ann: ONE", "retry by operator:ann refused: the order has moved on"
)


def test_the_operator_whose_move_was_made_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    moves._tell("shop-a/1", "retry", "retried by operator:ann: ONE", SEEN, NOW)
    said = capsys.readouterr().out
    assert "retried by operator:ann: ONE" in said
    assert "refused" not in said


def test_a_step_that_was_refused_again_at_once_is_told_with_the_move(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = order("error", "retried by operator:ann: ONE", "charge failed: the card was refused: stolen")
    moves._tell("shop-a/1", "retry", "retried by operator:ann: ONE", SEEN, now)
    assert "the card was refused: stolen" in capsys.readouterr().out


def test_the_operator_who_came_too_late_is_told_so() -> None:
    with pytest.raises(TriumvirError, match="refused: the order has moved on"):
        moves._tell("shop-a/1", "retry", "retried by operator:ann: TWO", SEEN, NOW)
