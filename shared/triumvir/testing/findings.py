"""What an audit finds: one broken promise each, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Rule = Literal["A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9"]

PROMISES: Final[dict[Rule, str]] = {
    "A1": "every accepted order is in one end state, or rests with an alert",
    "A2": "the effects outside equal what the state says; one net effect per idempotency key at most",
    "A3": "what was compensated left nothing, and was undone in reverse",
    "A4": "nothing was written under a superseded token",
    "A5": "no more calls than the budget allows, and none that was not written down first",
    "A6": "statuses are numbered without gaps, the client got all of them, the last one is the state",
    "A7": "no confirmed submission is missing; each document has its order, each order its document",
    "A8": "nothing is left over: outbox, queues, commands, sessions, admission",
    "A9": "nothing was set aside that was not meant to be",
}
_MOST_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken promise; ``order`` is ``client/order_id`` where it is about one order."""

    rule: Rule
    order: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.rule} {f'{self.order}: ' if self.order else ''}{self.text}"


def describe(findings: Sequence[Finding]) -> str:
    """All of it for a reader: by promise, at most a dozen examples of each."""
    if not findings:
        return "the audit found nothing"
    lines = [f"the audit found {len(findings)} broken promises"]
    for rule, count in sorted(Counter(finding.rule for finding in findings).items()):
        lines.append(f"{rule} ({PROMISES[rule]}): {count}")
        shown = [finding for finding in findings if finding.rule == rule][:_MOST_SHOWN]
        lines += [f"    {finding.order or '-'}: {finding.text}" for finding in shown]
        if count > len(shown):
            lines.append(f"    and {count - len(shown)} more")
    return "\n".join(lines)
