"""The worst case of a workflow: it is what the decisions themselves come to, if everything goes wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.unit.lifecycle.one_order import OneOrder, workflow_of
from triumvir.lifecycle import Bounds, Policy, PolicyLine, planned
from triumvir.workflow import Stage, Step, Wait, Workflow

SECOND = timedelta(seconds=1)
POLICY = Policy(jitter_factor=0, max_failures=2, max_retries=2, step_timeout=10 * SECOND)


def test_a_step_is_tried_once_more_than_it_may_fail_and_each_request_is_sent_again() -> None:
    (step,) = planned(workflow_of("a"), POLICY, 2 * SECOND).steps
    assert (step.forward.attempts, step.forward.requests, step.forward.calls) == (3, 9, 9)
    assert step.forward.time == 3 * (10 + 2) * SECOND + (1 + 2) * SECOND
    assert step.forward.binds == "max-failures"
    assert step.undo is not None


def test_resends_that_do_not_fit_into_the_time_are_not_counted() -> None:
    short = replace(POLICY, step_timeout=5 * SECOND)
    assert planned(workflow_of("a"), short, SECOND).steps[0].forward.requests == 3 * 2


def test_cool_offs_are_attempts_and_take_their_time() -> None:
    cooled = replace(POLICY, cool_offs=(300 * SECOND,))
    bounds = planned(workflow_of("a"), cooled, 2 * SECOND).steps[0].forward
    assert (bounds.attempts, bounds.calls) == (4, 12)
    assert bounds.time == 4 * 12 * SECOND + (1 + 2 + 300) * SECOND


@pytest.mark.parametrize(("budget", "calls", "binds"), [(30, 18, "max-failures"), (5, 7, "retry-budget")])
def test_all_steps_share_one_budget(budget: int, calls: int, binds: str) -> None:
    made = planned(workflow_of("a", "b"), replace(POLICY, retry_budget=budget), 2 * SECOND)
    assert (made.forward.calls, made.forward.binds) == (calls, binds)


def test_each_undo_has_a_budget_of_its_own() -> None:
    made = planned(workflow_of("a", "check"), replace(POLICY, undo_retry_budget=1), 2 * SECOND)
    undo = made.steps[0].undo
    assert undo is not None
    assert (undo.calls, undo.attempts, undo.binds) == (2, 2, "undo-retry-budget")
    assert made.steps[1].undo is None
    assert made.undo == undo


def test_a_wait_for_a_signal_calls_nothing_and_takes_its_time() -> None:
    workflow = Workflow("w", 1, [Wait("approve", signal="approval", within=timedelta(hours=1))])
    made = planned(workflow, POLICY, SECOND)
    assert (made.forward.calls, made.undo) == (0, None)
    assert made.forward.time >= timedelta(hours=1)


def test_a_step_that_runs_once_is_called_once_and_asked_about_once() -> None:
    (plan,) = planned(
        _routed(Step("a", agent="a", operation="a", recoverable=False)), POLICY, 2 * SECOND
    ).steps
    assert plan.forward == Bounds(2, 1 + 3, 1, 2 * (10 + 2) * SECOND, "recoverable")


def test_where_a_time_out_leads_is_named_and_nothing_is_asked_there() -> None:
    first = Step("a", agent="a", operation="a", recoverable=False, on_timeout="c")
    plan, _, last = planned(_routed(first, *workflow_of("b", "c").steps), POLICY, 2 * SECOND).steps
    assert plan.forward == Bounds(1, 1, 1, 12 * SECOND, "recoverable")
    assert (plan.on_timeout, last.on_timeout) == ("c", None)


def test_a_line_that_names_no_later_step_of_the_workflow_leads_nowhere() -> None:
    line = PolicyLine(("Any", "Any", "Any"), "on-timeout", "b", "policy.toml:1")
    made = planned(workflow_of("a", "b", "c"), replace(POLICY, lines=(line,)), SECOND)
    assert [step.on_timeout for step in made.steps] == ["b", None, None]


def _routed(*steps: Stage) -> Workflow:
    return Workflow("w", 1, list(steps))


@pytest.mark.parametrize("budget", [0, 1, 2, 3, 5, 30])
@pytest.mark.parametrize("calls_each", [1, 3])
def test_an_order_that_always_fails_makes_the_planned_calls_in_no_more_than_the_planned_attempts(
    budget: int, calls_each: int
) -> None:
    """``calls_each``: 3 is a service that fails at once, 1 one that hangs until the time is over."""
    policy = replace(POLICY, retry_budget=budget)
    order = OneOrder("a", policy=policy)
    plan = planned(order.workflow, policy, timedelta()).steps[0].forward
    calls = 0
    order.claim()
    while order.state != "error":
        calls += min(calls_each, order.entry().allowed("do") or 0)
        order.expire(calls=calls)
        order.wait(60)
        order.claim()
    assert order.record.attempt <= plan.attempts
    assert calls <= plan.calls
    assert calls_each == 1 or calls == plan.calls
    assert calls_each == 3 or order.record.attempt == plan.attempts
