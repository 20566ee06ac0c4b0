"""Recovery policies by ``Flow.State.Action``: which line binds an action, setting by setting.

A pattern names a workflow, a step and an operation (or undo), or ``Any`` for each. Of the lines that match, the one
with more names wins; on a tie a named action goes before a named state, and that before a named flow.

>>> from datetime import timedelta
>>> from triumvir.lifecycle.policy import Policy
>>> policy = Policy(lines=(PolicyLine(("Any", "charge", "Any"), "max-retries", 5, "policies.toml:2"),))
>>> policy.resolve("shop", "charge", "charge-card")["max-retries"]
Bound(value=5, source='policies.toml:2', pattern='Any.charge.Any')
>>> policy.resolve("shop", "ship", "book")["max-retries"].source
'TRIUMVIR_MAX_RETRIES'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

ANY: Final = "Any"
Setting = Literal[
    "timeout-duration", "initial-retry-interval", "max-retries", "jitter-factor", "backoff-origin",
    "custom-backoffs", "max-failures", "reopen-backoff", "reopen-backoff-max", "cool-offs",
    "retry-budget", "undo-retry-budget", "action-recovery-delay",
    "on-timeout",
]  # fmt: skip
Origin = Literal["first-call", "previous-call"]
Value = timedelta | int | float | str | tuple[timedelta, ...]
Pattern = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class PolicyLine:
    """One setting for the actions that ``pattern`` (flow, state, action) names. ``source``: where it was written."""

    pattern: Pattern
    setting: Setting
    value: Value
    source: str


@dataclass(frozen=True, slots=True)
class Bound:
    """The value that binds, and the line it came from."""

    value: Value
    source: str
    pattern: str


def resolved(lines: Iterable[PolicyLine], flow: str, state: str, action: str) -> Mapping[Setting, Bound]:
    """For each setting the line that binds this action; of equal patterns the later line."""
    bound: dict[Setting, Bound] = {}
    ranks: dict[Setting, tuple[int, bool, bool, bool]] = {}
    for line in lines:
        if not _matches(line.pattern, (flow, state, action)):
            continue
        rank = _rank(line.pattern)
        if line.setting not in ranks or rank >= ranks[line.setting]:
            ranks[line.setting] = rank
            bound[line.setting] = Bound(line.value, line.source, ".".join(line.pattern))
    return bound


def _matches(pattern: Pattern, action: Pattern) -> bool:
    return all(named in (ANY, name) for named, name in zip(pattern, action, strict=True))


def _rank(pattern: Pattern) -> tuple[int, bool, bool, bool]:
    flow, state, action = (segment != ANY for segment in pattern)
    return flow + state + action, action, state, flow
