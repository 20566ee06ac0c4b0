"""Which line binds which action: per setting, by how much it names."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest

from tests.unit.lifecycle.one_order import OneOrder
from triumvir.lifecycle import ANY, Policy, PolicyLine
from triumvir.workflow import Step, Workflow

SECOND = timedelta(seconds=1)
ACTION = ("shop", "charge", "charge-card")
WEAKEST_FIRST = [
    "Any.Any.Any", "shop.Any.Any", "Any.charge.Any", "Any.Any.charge-card",
    "shop.charge.Any", "shop.Any.charge-card", "Any.charge.charge-card", "shop.charge.charge-card",
]  # fmt: skip


def line(pattern: str, value: int, source: str = "here") -> PolicyLine:
    flow, state, action = pattern.split(".")
    return PolicyLine((flow, state, action), "max-retries", value, source)


@pytest.mark.parametrize(("weak", "strong"), [p for p in product(range(8), range(8)) if p[0] < p[1]])
def test_more_names_win_and_on_a_tie_action_before_state_before_flow(weak: int, strong: int) -> None:
    lines = (line(WEAKEST_FIRST[strong], 2), line(WEAKEST_FIRST[weak], 1))
    for order in (lines, lines[::-1]):
        bound = Policy(lines=order).resolve(*ACTION)["max-retries"]
        assert (bound.value, bound.pattern) == (2, WEAKEST_FIRST[strong])


def test_each_setting_is_resolved_by_itself() -> None:
    lines = (
        line("shop.charge.charge-card", 7),
        PolicyLine((ANY, "charge", ANY), "jitter-factor", 0.5, "there"),
    )
    bound = Policy(lines=lines).resolve(*ACTION)
    assert (bound["max-retries"].value, bound["jitter-factor"].value) == (7, 0.5)
    assert bound["initial-retry-interval"].source == "TRIUMVIR_RETRY_INTERVAL"


def test_a_line_for_another_action_binds_nothing() -> None:
    lines = tuple(line(pattern, 9) for pattern in ("store.Any.Any", "Any.ship.Any", "shop.charge.refund"))
    assert Policy(lines=lines).resolve(*ACTION)["max-retries"].value == 2


def test_a_definition_says_how_long_its_step_may_take_unless_a_line_names_as_much() -> None:
    step = Step("charge", agent="a", operation="charge-card", complete_within=4 * SECOND)
    workflow = Workflow("shop", 1, [step])

    def timeout(*patterns: tuple[str, str, str]) -> timedelta:
        lines = tuple(PolicyLine(pattern, "timeout-duration", 9 * SECOND, "file") for pattern in patterns)
        return Policy(lines=lines).of(workflow, step, "charge-card").timeout

    assert timeout() == 4 * SECOND
    assert timeout((ANY, ANY, ANY)) == 4 * SECOND
    assert timeout(("shop", "charge", ANY)) == 9 * SECOND


def test_a_step_and_its_undo_each_follow_their_own_lines() -> None:
    lines = (
        PolicyLine((ANY, ANY, "s1"), "timeout-duration", 5 * SECOND, "file"),
        PolicyLine((ANY, ANY, "undo-s1"), "timeout-duration", 50 * SECOND, "file"),
        PolicyLine((ANY, ANY, "undo-s1"), "max-failures", 0, "file"),
    )
    order = OneOrder("s1", "s2", on_error="compensate", policy=Policy(jitter_factor=0, lines=lines))
    order.claim()
    assert order.record.complete_by == order.now + 5 * SECOND
    order.succeed()
    assert order.record.complete_by == order.now + 10 * SECOND
    order.fail()
    order.claim()
    assert order.record.complete_by == order.now + 50 * SECOND
    order.expire()
    assert order.state == "compensation_failed"


def test_a_retry_that_counts_from_the_send_before_is_due_after_it_was_made() -> None:
    lines: tuple[PolicyLine, ...] = (PolicyLine((ANY, "s1", ANY), "backoff-origin", "previous-call", "file"),)
    order = OneOrder("s1", policy=Policy(jitter_factor=0, lines=lines))
    order.claim()
    order.wait(4)
    order.retry_due()
    assert order.record.wake_at is None, "six seconds after the fourth are the timeout"
    lines += (PolicyLine((ANY, ANY, ANY), "timeout-duration", 60 * SECOND, "file"),)
    order = OneOrder("s1", policy=Policy(jitter_factor=0, lines=lines))
    order.claim()
    order.wait(4)
    order.retry_due()
    assert order.record.wake_at == order.now + 6 * SECOND
