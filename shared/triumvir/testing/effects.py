"""Effects outside against the state inside: what happened, how often, and whether it was taken back."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from triumvir.contracts.names import Direction
from triumvir.lifecycle import END, RESTING
from triumvir.runtime.decisions import policy_of
from triumvir.settings import Settings
from triumvir.store.statements import Row
from triumvir.testing.evidence import Ledger
from triumvir.testing.findings import Finding
from triumvir.testing.snapshot import OrderFacts, Snapshot

_ANY = frozenset({0, 1})


def net_effects(snapshot: Snapshot, ledger: Ledger) -> Iterator[Finding]:
    """A2: by key at most one effect; by step the net effect that its record says."""
    for (order, key), count in Counter((effect.order, effect.key) for effect in ledger.effects).items():
        if count > 1:
            yield Finding("A2", order, f"{count} effects under one idempotency key, {key}")
    net: Counter[tuple[str, str]] = Counter()
    for effect in ledger.effects:
        net[effect.order, effect.step] += 1 if effect.direction == "do" else -1
    for order in {order for order, _ in net} - set(snapshot.orders):
        yield Finding("A2", order, "effects happened for an order that does not exist")
    for order, facts in snapshot.kept.items():
        if facts.state not in END | RESTING:
            continue
        for step_no, step in enumerate(facts.workflow.steps, start=1):
            allowed = _allowed(facts, step_no)
            if ledger.covers(step.name) and net[order, step.name] not in allowed:
                wanted = " or ".join(map(str, sorted(allowed)))
                yield Finding(
                    "A2",
                    order,
                    f"{facts.state}, {step.name}: net effect {net[order, step.name]}, not {wanted}",
                )


def _allowed(facts: OrderFacts, step_no: int) -> frozenset[int]:
    """The net effects that the record of a step allows."""
    row = facts.steps.get(step_no)
    if row is None:
        return frozenset({0})
    if row["by_hand"]:
        return _ANY
    if row["undo_state"] == "undone":
        return frozenset({0})
    if row["undo_state"] == "undo_failed" or row["effect"] == "unknown" or row["undo_generation"] > 0:
        return _ANY  # also: a success told after its undo, which is to run anew and may have taken it back already
    return frozenset({1 if row["effect"] == "certain" else 0})


def compensations(snapshot: Snapshot, ledger: Ledger) -> Iterator[Finding]:
    """A3: a compensated order left nothing that could be undone, and was undone in the order that its workflow says."""
    undone: defaultdict[str, list[str]] = defaultdict(list)
    for effect in ledger.effects:
        if effect.direction == "undo" and effect.step not in undone[effect.order]:
            undone[effect.order].append(effect.step)
    for order, facts in snapshot.kept.items():
        if facts.state == "compensated":
            yield from _left_over(facts)
        once = [name for name in undone[order] if name in _undone_once(facts)]
        expected = sorted(once, key=lambda name: _rank(facts, name))
        if once != expected:
            yield Finding("A3", order, f"undone in the order {', '.join(once)}, not {', '.join(expected)}")


def _rank(facts: OrderFacts, name: str) -> int:
    """Equal for steps that may be undone at the same time: these stay as they are."""
    names = [step.name for step in facts.workflow.steps]
    return facts.workflow.undo_rank(names.index(name) + 1)


def _left_over(facts: OrderFacts) -> Iterator[Finding]:
    for step_no, row in facts.steps.items():
        step = facts.workflow.step(step_no)
        if step.undo is not None and row["effect"] != "none" and row["undo_state"] != "undone":
            yield Finding("A3", facts.key, f"compensated although {step.name} is {row['undo_state']}")


def _undone_once(facts: OrderFacts) -> set[str]:
    """Steps whose undo was not repeated for a late success, which may come after that of earlier steps."""
    return {facts.step_name(no) for no, row in facts.steps.items() if row["undo_generation"] == 0}


def calls(snapshot: Snapshot, ledger: Ledger | None, settings: Settings) -> Iterator[Finding]:
    """A5: the calls of a step stay within the budget, anew for each move of an operator; each was written down
    before it was made.

    Where the ledger tells how many were made, that counts: a call that was written down in a commit whose answer
    was lost may never have been made.
    """
    policy = policy_of(settings)
    reached = (
        Counter((call.order, call.step, call.direction) for call in ledger.calls) if ledger else Counter()
    )
    for order, facts in snapshot.kept.items():
        for (step_no, direction), row in facts.inbox.items():
            defined = facts.workflow.step(step_no)
            name = defined.name
            action = defined.undo if direction == "undo" and defined.undo else defined.operation
            attempts = policy.of(facts.workflow, defined, action).max_failures + 1
            watched = ledger is not None and ledger.covers(name)
            each = settings.calls_per_request
            if direction == "do" and not defined.recoverable:
                each = 1 if watched else 2  # whoever takes over writes one down, and finds that none is left
            most = each * attempts * (row["generation"] + 1 + facts.moves)
            made = reached[order, name, direction] if watched else row["calls"]
            if made > most:
                yield Finding("A5", order, f"{direction} of {name}: {made} calls, {most} allowed")
            if made > row["calls"]:
                yield Finding(
                    "A5", order, f"{direction} of {name}: {made} calls made, {row['calls']} written down"
                )
    for order, step, direction in reached:
        if not _is_written(snapshot, order, step, direction):
            yield Finding("A5", order, f"{direction} of {step} was called without being written down")


def _is_written(snapshot: Snapshot, order: str, step: str, direction: Direction) -> bool:
    facts = snapshot.orders.get(order)
    if facts is not None and facts.purged:
        return True
    row: Row | None = None
    if facts is not None:
        named = {s.name: no for no, s in enumerate(facts.workflow.steps, start=1)}
        row = facts.inbox.get((named.get(step, 0), direction))
    return row is not None
