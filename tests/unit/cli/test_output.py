"""How times, spans and statuses are written for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from triumvir.cli.board import status_line
from triumvir.cli.output import duration, moment, until
from triumvir.contracts.messages import Status

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (4.0, "4.0 s"), (12.3, "12 s"), (200, "3 min"), (20_000, "6 h"), (200_000, "2 d")],
)
def test_a_span_is_told_in_its_largest_unit(seconds: float, words: str) -> None:
    assert duration(timedelta(seconds=seconds)) == words


def test_a_time_is_told_in_utc() -> None:
    assert moment(NOON.astimezone(timezone(timedelta(hours=5)))) == "2026-01-01 12:00:00.000Z"
    assert until(NOON + timedelta(seconds=5), NOON) == "in 5.0 s"
    assert until(NOON - timedelta(minutes=2), NOON) == "2 min ago"


def test_a_status_line_says_which_order_and_why_and_cannot_be_forged_by_markup() -> None:
    status = Status(
        order_id="[red]1", status="held", sequence=2, at=NOON, step="charge", detail="[bold]agent away"
    )
    assert status_line(status) == (
        "2026-01-01 12:00:00.000Z  \\[red]1  [yellow]held[/yellow]  charge: \\[bold]agent away"
    )
