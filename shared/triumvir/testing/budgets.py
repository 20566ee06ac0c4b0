"""Calls against the retry budgets: what reached remote services, what was granted, and by whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from triumvir.contracts.names import Direction
from triumvir.runtime.decisions import policy_of
from triumvir.settings import Settings
from triumvir.testing.evidence import Ledger
from triumvir.testing.findings import Finding
from triumvir.testing.snapshot import OrderFacts, Snapshot


def budgets(snapshot: Snapshot, ledger: Ledger | None, settings: Settings) -> Iterator[Finding]:
    """A5: no order was called for beyond what was granted, and nobody granted more than the settings and the moves of
    operators do. Orders that a release without budgets dispatched are not compared.
    """
    policy = policy_of(settings)
    reached = (
        Counter((call.order, call.step, call.direction) for call in ledger.calls) if ledger else Counter()
    )
    for order, facts in snapshot.kept.items():
        granted, first = facts.record["budget"], policy.retry_budget_of(facts.workflow.name)
        if granted is None:
            continue
        made = {key: _made(facts, key, ledger, reached) for key in facts.inbox}
        beyond = sum(max(0, calls - 1) for (_, direction), calls in made.items() if direction == "do")
        if beyond > granted:
            yield Finding("A5", order, f"{beyond} calls beyond the first of each step, {granted} granted")
        if granted > first * (facts.moves + 1) + facts.moves:
            yield Finding("A5", order, f"{granted} calls granted: {first} at first, and {facts.moves} moves")
        for step_no, row in facts.steps.items():
            limit, undos = row["undo_limit"], made.get((step_no, "undo"), 0)
            if limit is not None and undos > limit:
                name = facts.step_name(step_no)
                yield Finding("A5", order, f"undo of {name}: {undos} calls, {limit} granted")


def _made(
    facts: OrderFacts,
    key: tuple[int, Direction],
    ledger: Ledger | None,
    reached: Counter[tuple[str, str, Direction]],
) -> int:
    """Calls that were made: where the ledger does not tell, those that were written down."""
    name = facts.step_name(key[0])
    if ledger is not None and ledger.covers(name):
        return reached[facts.key, name, key[1]]
    calls: int = facts.inbox[key]["calls"]
    return calls
