"""What a workflow may cost at worst: requests, calls and time, by step and in all, and which limit ends it.

Pure: the same policies that decisions follow. Not in it are waits that are nobody's failure and burn nothing: for an
agent that is away or full, for a window, in a pause; nor the question, which calls nothing, that is asked where an
answer was recorded and did not come through. All steps together are all that the definition has, though an order that
a time-out leads to another step passes over some. Where the policies of a step differ between releases or processes,
it is the plan of the one that was asked.

>>> from triumvir.workflow import Step, Workflow
>>> from triumvir.lifecycle.policy import Policy
>>> shop = Workflow("shop", 1, [Step("charge", agent="payments", operation="charge", undo="refund")])
>>> made = planned(shop, Policy(jitter_factor=0), overdue_after=timedelta(seconds=2))
>>> made.steps[0].forward
Bounds(attempts=4, requests=12, calls=12, time=datetime.timedelta(seconds=55), binds='max-failures')
>>> planned(shop, Policy(retry_budget=6), overdue_after=timedelta(seconds=2)).forward.calls
7
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from triumvir.lifecycle.course import later_step
from triumvir.lifecycle.policy import Policy
from triumvir.lifecycle.retry import RetryPolicy, next_attempt, retry_at
from triumvir.workflow import Wait, Workflow

Binding = Literal["max-failures", "retry-budget", "undo-retry-budget", "within", "recoverable"]
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_EARLIEST, _LATEST = 0.0, 1.0
"""Draws: the earliest re-sends are the most, the latest attempts the slowest."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """At most so many. ``requests``: messages to the agent, of which re-sends cause no calls; ``time``: from the first
    request to the decision that ends it; ``binds``: the limit that is met first.
    """

    attempts: int
    requests: int
    calls: int
    time: timedelta
    binds: Binding


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step; ``undo`` None if it declares none. One that waits for a signal calls nothing. ``on_timeout``: the step
    that is run once this one is out of time, which it then is not tried again after.
    """

    name: str
    forward: Bounds
    undo: Bounds | None
    on_timeout: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A workflow. ``forward``: every step at its worst; ``undo``: every undo; ``budget``: the order's retry budget."""

    workflow: str
    version: int
    budget: int
    steps: tuple[StepPlan, ...]
    forward: Bounds
    undo: Bounds | None


def planned(workflow: Workflow, policy: Policy, overdue_after: timedelta) -> Plan:
    """The worst case. ``overdue_after``: how long after a deadline the supervisor may come, its grace and interval."""
    budget = policy.retry_budget_of(workflow.name)
    steps = tuple(
        _step(workflow, number, policy, budget, overdue_after) for number in range(1, len(workflow.steps) + 1)
    )
    forward = _sum((step.forward for step in steps), len(steps) + budget)
    undos = [step.undo for step in steps if step.undo is not None]
    return Plan(workflow.name, workflow.version, budget, steps, forward, _sum(undos, None) if undos else None)


def _step(
    workflow: Workflow, step_no: int, policy: Policy, budget: int, overdue_after: timedelta
) -> StepPlan:
    step = workflow.step(step_no)
    if isinstance(step, Wait):
        return StepPlan(step.name, Bounds(0, 0, 0, step.within + overdue_after, "within"), None)
    calls, undo = policy.calls_per_request, None
    rules = policy.of(workflow, step, step.operation)
    leads_to = later_step(workflow, step_no, rules.on_timeout)
    if step.recoverable:
        forward = _bounds(rules, calls, budget, "retry-budget", overdue_after)
    else:
        questions = policy.of(workflow, step, step.operation, asking=True)
        forward = _once(rules, None if leads_to else questions, overdue_after)
    if step.undo is not None:
        rules = policy.of(workflow, step, step.undo)
        undo = _bounds(rules, calls, rules.undo_budget, "undo-retry-budget", overdue_after)
    return StepPlan(step.name, forward, undo, None if leads_to is None else workflow.step(leads_to).name)


def _once(rules: RetryPolicy, questions: RetryPolicy | None, overdue_after: timedelta) -> Bounds:
    """One call; where no answer comes, it is asked once what came of it, and the question is sent again like any."""
    time = rules.timeout + overdue_after
    if questions is None:
        return Bounds(1, 1, 1, time, "recoverable")
    return Bounds(2, 2 + resends(questions), 1, time + questions.timeout + overdue_after, "recoverable")


def _bounds(
    rules: RetryPolicy, calls_per_request: int, budget: int, name: Binding, overdue_after: timedelta
) -> Bounds:
    """Every attempt that counts makes one call at least, so that the budget bounds the attempts as well."""
    failures = 1 + rules.max_failures + len(rules.cool_offs)
    attempts = min(failures, 1 + budget)
    calls = min(failures * calls_per_request, 1 + budget)
    waits = [next_attempt(rules, n, _LATEST) or timedelta() for n in range(1, attempts)]
    return Bounds(
        attempts,
        attempts * (1 + resends(rules)),
        calls,
        attempts * (rules.timeout + overdue_after) + sum(waits, timedelta()),
        "max-failures" if calls == failures * calls_per_request else name,
    )


def resends(rules: RetryPolicy) -> int:
    """How often a request is sent again before its time is over, at most."""
    count, at = 0, _EPOCH
    while (due := retry_at(rules, count + 1, _EARLIEST, _EPOCH, at)) is not None:
        count, at = count + 1, due
    return count


def _sum(bounds: Iterable[Bounds], most_calls: int | None) -> Bounds:
    """All of them, one after another, within the calls of one budget if they share one."""
    parts = list(bounds)
    calls = sum(part.calls for part in parts)
    binds: Binding
    binds = next((part.binds for part in parts if part.binds.endswith("budget")), "max-failures")
    if most_calls is not None and calls > most_calls:
        calls, binds = most_calls, "retry-budget"
    return Bounds(
        sum(part.attempts for part in parts),
        sum(part.requests for part in parts),
        calls,
        sum((part.time for part in parts), timedelta()),
        binds,
    )
