"""Whether ledgers, store and client agree, and what there is to be counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from shop.demo.following import Following
from shop.demo.records import CHECK, Records
from shop.demo.system import CLIENT
from shop.reconcile import SERVICES, amounts_apart, differences, really_undone

STATE_OF_STATUS: Mapping[str, str | None] = {"completed": "processed", "failed": "error", "rejected": None}
"""Statuses that are named otherwise than the state they tell of."""
ENOUGH_FOR_AN_UNDO: Final = 50
"""The services refuse 6 orders in 100, most of them after something was done: of so many, one must be undone."""


@dataclass(frozen=True)
class Tally:
    """One service: raw calls, effects and undos in its ledger, and what stands there against the store.

    ``amount`` and ``kept_amount`` are pieces (inventory) or pounds (payments, shipping).
    """

    service: str
    calls: int
    effects: int
    undone: int
    kept: int
    amount: Decimal
    kept_amount: Decimal

    @property
    def agrees(self) -> bool:
        return (self.effects - self.undone, self.amount) == (self.kept, self.kept_amount)


@dataclass(frozen=True)
class Report:
    """``groups``: how many orders, by end and why. Good if ``differences`` and ``amiss``, in words, are empty."""

    groups: dict[tuple[str, str], int]
    tallies: list[Tally]
    differences: list[str]
    amiss: list[str]
    seconds: dict[str, float] = field(default_factory=dict)
    """How long what took."""

    @property
    def is_good(self) -> bool:
        return not self.differences and not self.amiss

    @property
    def ends(self) -> Counter[str]:
        """How many orders by end."""
        counts: Counter[str] = Counter()
        for (state, _), count in self.groups.items():
            counts[state] += count
        return counts


def compare(
    records: Records,
    effects: Sequence[Mapping[str, Any]],
    calls: Sequence[Mapping[str, Any]],
    following: Following,
) -> Report:
    """Compares store, ledgers and what the client was told."""
    undone = really_undone(effects)
    return Report(
        groups=dict(Counter(_group(order, state, records, undone) for order, state in records.ends.items())),
        tallies=[_tally(service, effects, calls, records) for service in SERVICES],
        differences=[
            *differences(effects, records.ends, calls=calls, refused=records.refused, recorded=records.steps),
            *amounts_apart(effects, records.amounts),
            *_told_otherwise(records.ends, following),
            *_not_there(records.ends, following),
        ],
        amiss=_without_undo(records, undone),
    )


def _group(order: str, state: str, records: Records, undone: set[str]) -> tuple[str, str]:
    if state != "compensated":
        return state, ""
    why = "given up at" if order in records.given_up else "refused by"
    agent = records.failed_at.get(order, "nobody")
    where = "check-order" if agent == CHECK else agent
    return state, f"{'undone' if order in undone else 'nothing to undo'}: {why} {where}"


def _tally(
    service: str, effects: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]], records: Records
) -> Tally:
    amounts: dict[str, list[Decimal]] = {"do": [], "undo": []}
    for effect in effects:
        if effect["service"] == service:
            amounts[effect["direction"]].append(Decimal(effect["amount"]))
    kept = [Decimal(steps[service]) for steps in records.amounts.values() if service in steps]
    return Tally(
        service,
        calls=sum(call["service"] == service for call in calls),
        effects=len(amounts["do"]),
        undone=len(amounts["undo"]),
        kept=len(kept),
        amount=sum(amounts["do"], Decimal(0)) - sum(amounts["undo"], Decimal(0)),
        kept_amount=sum(kept, Decimal(0)),
    )


def _told_otherwise(ends: Mapping[str, str], following: Following) -> Iterable[str]:
    for order_id, status in sorted(following.last.items()):
        state = ends.get(f"{CLIENT}/{order_id}")
        if state != STATE_OF_STATUS.get(status, status):
            yield f"{CLIENT}/{order_id} ({state}): the client was told that it is {status}"
    if missing := ends.keys() - {f"{CLIENT}/{order_id}" for order_id in following.last}:
        yield f"the client was told nothing of {len(missing)} orders, such as {min(missing)}"


def _not_there(ends: Mapping[str, str], following: Following) -> Iterable[str]:
    accepted = following.total - following.counts()["rejected"]
    if len(ends) != accepted:
        yield f"{accepted} orders were submitted and not rejected, and the store holds {len(ends)}"


def _without_undo(records: Records, undone: set[str]) -> list[str]:
    sold = len(records.ends) - sum(agent == CHECK for agent in records.failed_at.values())
    if undone or sold < ENOUGH_FOR_AN_UNDO:
        return []
    return [f"none of {sold} orders was undone with real undos; one has to be"]
