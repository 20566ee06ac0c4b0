"""Not histories drawn by chance, but all of them: every state that a small world can reach is looked at."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import pytest

from tests.property.rules import Rule, Rules, Traits
from tests.property.search import Searched, search
from tests.property.small_world import Scope
from triumvir.workflow import OnError, UndoOrder

pytestmark = pytest.mark.timeout(7200)  # the deep searches take long

FAULTS: Final = {
    "slow": 2,  # time goes on although something is ready: late replies, late timers, timeouts
    "lost": 1,
    "doubled": 1,
    "outcome": 2,  # a call that fails, or whose answer is lost, or that is given up
    "cancel": 1,
    "operator": 1,
    "broken": 1,  # a decision raises
    "crash": 1,
    "lapse": 1,  # an agent's lease, while it lives
    "absent": 1,  # nobody offers the operation, or the agent that gets it does not know it
}


REPORTS: Final = {"report": 2, "slow": 1, "doubled": 1, "crash": 1}
SIGNALS: Final = {"signal": 2}  # before its step is reached, while it waits, once more, or too late


Search = Callable[..., Searched]


@pytest.fixture
def searched(capsys: pytest.CaptureFixture[str]) -> Search:
    """Searches all of it; how many states that were is printed, since it is what the result is worth."""

    def searched(
        steps: int,
        on_error: OnError,
        together: int,
        undo_order: UndoOrder = "reverse",
        traits: Traits | None = None,
        rules: Rules | None = None,
    ) -> Searched:
        faults = FAULTS | SIGNALS if rules else FAULTS
        found = search(Scope(steps, on_error, faults, together, undo_order, traits or {}, rules or {}))
        special = f", steps that are {traits or rules}" if traits or rules else ""
        named = (
            f"{steps} steps{special}, on error {on_error}, undone in {undo_order}, {together} faults together"
        )
        with capsys.disabled():
            sys.stdout.write(f"\n{named}: {found}\n")
        assert found.complete
        return found

    return searched


@pytest.mark.parametrize(("steps", "on_error", "least"), [(2, "compensate", 8_000), (1, "halt", 2_000)])
def test_whatever_two_faults_meet_every_reachable_state_is_right(
    steps: int, on_error: OnError, least: int, searched: Search
) -> None:
    found = searched(steps, on_error, 2)
    assert found.states > least
    assert {"processed", "compensated", "compensation_failed", "cancelled", "closed", "error"} <= set(
        found.ends
    )


def test_with_both_undos_under_way_at_once_every_reachable_state_is_right(searched: Search) -> None:
    found = searched(2, "compensate", 2, "parallel")
    assert {"compensated", "compensation_failed"} <= set(found.ends)


@pytest.mark.slow
def test_with_both_undos_under_way_at_once_more_faults_lead_to_right_states_only(searched: Search) -> None:
    assert searched(2, "compensate", 3, "parallel").states > 20_000


@pytest.mark.slow
@pytest.mark.parametrize("on_error", ["compensate", "halt"])
@pytest.mark.parametrize("steps", [1, 2])
def test_whatever_three_faults_meet_every_reachable_state_is_right(
    steps: int, on_error: OnError, searched: Search
) -> None:
    assert searched(steps, on_error, 3).states > 20_000


@pytest.mark.parametrize(
    ("steps", "traits", "on_error"), [(2, {1: "leads", 2: "standby"}, "compensate"), (1, {1: "once"}, "halt")]
)
def test_where_time_outs_lead_on_and_steps_run_once_every_reachable_state_is_right(
    steps: int, traits: Traits, on_error: OnError, searched: Search
) -> None:
    assert searched(steps, on_error, 2, traits=traits).states > 2_000


def test_whatever_meets_a_report_of_progress_every_reachable_state_is_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = search(Scope(1, "compensate", REPORTS, 3))
    with capsys.disabled():
        sys.stdout.write(f"\n1 step that reports progress twice: {found}\n")
    assert found.complete
    assert found.states > 500


@pytest.mark.slow
@pytest.mark.parametrize("traits", [{1: "leads", 2: "standby"}, {1: "once-leads"}, {1: "once", 2: "once"}])
def test_where_time_outs_lead_on_more_faults_end_right_as_well(traits: Traits, searched: Search) -> None:
    assert searched(2, "compensate", 3, traits=traits).states > 20_000


@pytest.mark.parametrize("rule", ["waits", "waits-or-fails"])
@pytest.mark.parametrize("on_error", ["compensate", "halt"])
def test_whatever_meets_a_wait_for_a_signal_every_reachable_state_is_right(
    rule: Rule, on_error: OnError, searched: Search
) -> None:
    found = searched(1, on_error, 3, rules={1: rule})
    assert found.states > 150
    assert {"processed", "cancelled"} <= set(found.ends)


@pytest.mark.slow
@pytest.mark.parametrize("rules", [{1: "waits"}, {1: "waits-or-fails"}, {2: "waits"}, {2: "waits-or-fails"}])
def test_with_a_step_before_or_after_the_wait_every_reachable_state_is_right(
    rules: Rules, searched: Search
) -> None:
    assert searched(2, "compensate", 2, rules=rules).states > 2_000
