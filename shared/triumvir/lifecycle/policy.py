"""The policy of a process: its settings, and the lines of a policy file, resolved for one action at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from triumvir.lifecycle.policies import ANY, Bound, PolicyLine, Setting, resolved
from triumvir.lifecycle.retry import RetryPolicy
from triumvir.workflow import Stage, Workflow

_BASE: Final[Mapping[Setting, tuple[str, str]]] = {
    "timeout-duration": ("step_timeout", "TRIUMVIR_STEP_TIMEOUT"),
    "initial-retry-interval": ("retry_interval", "TRIUMVIR_RETRY_INTERVAL"),
    "max-retries": ("max_retries", "TRIUMVIR_MAX_RETRIES"),
    "jitter-factor": ("jitter_factor", "TRIUMVIR_JITTER_FACTOR"),
    "max-failures": ("max_failures", "TRIUMVIR_MAX_FAILURES"),
    "reopen-backoff": ("reopen_backoff", "TRIUMVIR_REOPEN_BACKOFF"),
    "reopen-backoff-max": ("reopen_backoff_max", "TRIUMVIR_REOPEN_BACKOFF_MAX"),
    "cool-offs": ("cool_offs", "TRIUMVIR_COOL_OFFS"),
    "retry-budget": ("retry_budget", "TRIUMVIR_RETRY_BUDGET"),
    "undo-retry-budget": ("undo_retry_budget", "TRIUMVIR_UNDO_RETRY_BUDGET"),
    "action-recovery-delay": ("action_recovery_delay", "TRIUMVIR_ACTION_RECOVERY_DELAY"),
}
"""Settings of the process, which bind where no line does: field of Policy, and variable."""
_FIELDS: Final[Mapping[Setting, str]] = {
    "timeout-duration": "timeout",
    "initial-retry-interval": "interval",
    "max-retries": "max_retries",
    "jitter-factor": "jitter_factor",
    "backoff-origin": "origin",
    "custom-backoffs": "custom_backoffs",
    "max-failures": "max_failures",
    "reopen-backoff": "reopen_backoff",
    "reopen-backoff-max": "reopen_backoff_max",
    "cool-offs": "cool_offs",
    "undo-retry-budget": "undo_budget",
    "action-recovery-delay": "recovery_delay",
    "on-timeout": "on_timeout",
}
_Key = tuple[str, str, str, timedelta | None, str | None, bool]


@dataclass(frozen=True, slots=True)
class Policy:
    """What decisions follow: settings of recovery, the lines that say otherwise for some actions, and the bounds of
    what a step may select.
    """

    step_timeout: timedelta = timedelta(seconds=10)
    retry_interval: timedelta = timedelta(seconds=3)
    max_retries: int = 2
    jitter_factor: float = 0.2
    max_failures: int = 3
    reopen_backoff: timedelta = timedelta(seconds=1)
    reopen_backoff_max: timedelta = timedelta(seconds=60)
    cool_offs: tuple[timedelta, ...] = ()
    calls_per_request: int = 3
    retry_budget: int = 30
    undo_retry_budget: int = 30
    action_recovery_delay: timedelta = timedelta(seconds=3)
    most_argument_bytes: int = 262_144
    most_argument_depth: int = 64
    lines: tuple[PolicyLine, ...] = ()
    _budgets: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False, hash=False)
    _known: dict[_Key, RetryPolicy] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )

    def resolve(
        self,
        flow: str,
        state: str,
        action: str,
        own: Sequence[PolicyLine] = (),
        binding: Sequence[PolicyLine] = (),
    ) -> Mapping[Setting, Bound]:
        """Every setting as it binds one action, and where that was said. ``own`` lines are the definition's, and so are
        the ``binding`` ones, which no other line can overrule.
        """
        return resolved((*self._settings(), *own, *self.lines, *binding), flow, state, action)

    def of(self, workflow: Workflow, step: Stage, action: str, *, asking: bool = False) -> RetryPolicy:
        """The policy that binds one operation, or undo, of a step; ``asking``: only what came of it is asked for."""
        once = not step.recoverable and not asking
        key = (workflow.name, step.name, action, step.complete_within, step.on_timeout, once)
        known = self._known.get(key)
        if known is None:
            own, binding = definition_lines(workflow, step), binding_lines(workflow, step) if once else ()
            bound = self.resolve(workflow.name, step.name, action, own, binding)
            values: dict[str, Any] = {
                _FIELDS[setting]: line.value for setting, line in bound.items() if setting in _FIELDS
            }
            known = self._known[key] = RetryPolicy(**values)
        return known

    def retry_budget_of(self, flow: str) -> int:
        """Calls that an order of this workflow may make beyond the first of each step."""
        budget = self._budgets.get(flow)
        if budget is None:
            value = self.resolve(flow, ANY, ANY)["retry-budget"].value
            assert isinstance(value, int)
            budget = self._budgets[flow] = value
        return budget

    def _settings(self) -> Iterator[PolicyLine]:
        for setting, (name, variable) in _BASE.items():
            yield PolicyLine((ANY, ANY, ANY), setting, getattr(self, name), variable)
        yield PolicyLine((ANY, ANY, ANY), "backoff-origin", "first-call", "default")


def definition_lines(workflow: Workflow, step: Stage) -> tuple[PolicyLine, ...]:
    """What the definition itself says of a step."""
    lines = []
    if step.complete_within is not None:
        within = step.complete_within, "complete_within of the definition"
        lines.append(PolicyLine((workflow.name, step.name, ANY), "timeout-duration", *within))
    if step.on_timeout is not None:
        leads_to = step.on_timeout, "on_timeout of the definition"
        lines.append(PolicyLine((workflow.name, step.name, ANY), "on-timeout", *leads_to))
    return tuple(lines)


def binding_lines(workflow: Workflow, step: Stage) -> tuple[PolicyLine, ...]:
    """What the definition says of a step and no file can overrule: an operation that is not recoverable runs once."""
    if step.recoverable:
        return ()
    pattern, source = (workflow.name, step.name, step.operation), "recoverable of the definition"
    return (
        PolicyLine(pattern, "max-retries", 0, source),
        PolicyLine(pattern, "custom-backoffs", (), source),
        PolicyLine(pattern, "max-failures", 0, source),
        PolicyLine(pattern, "cool-offs", (), source),
    )
