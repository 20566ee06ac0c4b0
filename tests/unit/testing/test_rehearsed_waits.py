"""Rehearsals of workflows that wait: signals at virtual times, defaults, and what an author sees of them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.unit.testing.troupe import Remote, till_of
from triumvir import Step, Wait, Workflow
from triumvir.errors import ConfigurationError
from triumvir.testing import Rehearsal

DAY = timedelta(days=1)
GRANTED = "steps.approve.result.granted"


def rehearsal_of(wait: Wait) -> Rehearsal:
    steps: list[Step | Wait] = [
        Step("reserve", agent="till", operation="reserve", undo="release"),
        wait,
        Step("charge", agent="till", operation="charge", undo="refund", when=GRANTED),
    ]
    return Rehearsal(Workflow("sale", 1, steps, on_error="compensate"), agents=[till_of(Remote())])


@pytest.fixture
def rehearsal() -> Rehearsal:
    return rehearsal_of(Wait("approve", signal="approval", within=2 * DAY, default={"granted": False}))


@pytest.mark.parametrize("at", [timedelta(0), timedelta(hours=30)])
def test_a_signal_lets_the_order_go_on_whether_it_came_before_or_after_its_step(
    rehearsal: Rehearsal, at: timedelta
) -> None:
    rehearsal.signal("approval", {"granted": True}, at=at)
    outcome = rehearsal.run_blocking({"pence": 500})
    assert outcome.state == "processed", outcome
    assert len(outcome.calls_of("charge")) == 1
    assert at <= outcome.elapsed < at + timedelta(seconds=5)
    assert outcome.steps["approve"].result == '{"granted":true}'


def test_without_a_signal_the_default_counts_two_days_later(rehearsal: Rehearsal) -> None:
    outcome = rehearsal.run_blocking({"pence": 500})
    assert (outcome.state, outcome.steps["charge"].state) == ("processed", "skipped")
    assert 2 * DAY <= outcome.elapsed < 2 * DAY + timedelta(seconds=5)
    assert outcome.told == ["received", "held", "completed"]


def test_a_second_signal_is_refused_and_a_late_one_too(rehearsal: Rehearsal) -> None:
    for at in (10, 20, 3 * DAY):
        rehearsal.signal("approval", {"granted": at == 10}, at=at)
    outcome = rehearsal.run_blocking({"pence": 500})
    assert outcome.told == ["received", "held", "signalled", "completed", "signal_refused", "signal_refused"]
    assert outcome.calls_of("charge")


def test_without_a_default_what_was_done_is_undone() -> None:
    outcome = rehearsal_of(Wait("approve", signal="approval", within=DAY)).run_blocking({"pence": 500})
    assert outcome.state == "compensated", outcome
    assert outcome.steps["approve"].error == "no signal approval came in time"
    assert len(outcome.calls_of("reserve", "undo")) == 1


def test_a_cancel_while_it_waits_is_carried_out_at_once(rehearsal: Rehearsal) -> None:
    rehearsal.cancel_at(3600)
    outcome = rehearsal.run_blocking({"pence": 500})
    assert outcome.state == "compensated"
    assert outcome.elapsed < timedelta(seconds=3605)


def test_a_signal_that_no_step_waits_for_is_said_at_once(rehearsal: Rehearsal) -> None:
    with pytest.raises(
        ConfigurationError, match="no step of sale waits for 'aproval'; the signals are approval"
    ):
        rehearsal.signal("aproval", at=1)


def test_a_wait_calls_nothing_that_could_fail(rehearsal: Rehearsal) -> None:
    with pytest.raises(ConfigurationError, match="waits for signal 'approval' and calls nothing"):
        rehearsal.die("approve")
