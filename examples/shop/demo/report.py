"""The end of the demo: what the ledgers and the store say, side by side, and whether they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from shop.demo.following import Following
from shop.demo.records import Records
from shop.demo.system import CLIENT
from shop.reconcile import SERVICES, differences, really_undone

STATE_OF_STATUS: Mapping[str, str] = {"completed": "processed", "failed": "error"}
"""Statuses that are named otherwise than the state they tell of."""


@dataclass(frozen=True)
class Tally:
    """One service: effects in its ledger, effects undone there, and the steps that the store holds as done."""

    service: str
    effects: int
    undone: int
    recorded: int


@dataclass(frozen=True)
class Report:
    """``differences`` and ``amiss`` in words; the demo is good if both are empty."""

    groups: dict[str, int]
    tallies: list[Tally]
    differences: list[str]
    amiss: list[str]

    @property
    def is_good(self) -> bool:
        return not self.differences and not self.amiss


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
        tallies=[_tally(service, effects, records) for service in SERVICES],
        differences=[
            *differences(effects, records.ends, calls=calls, refused=records.refused, recorded=records.steps),
            *_told_otherwise(records.ends, following),
        ],
        amiss=[] if undone else ["no order was undone with real undos; the demo has to show one"],
    )


def show(report: Report, console: Console) -> None:
    """Two tables, and the first differences."""
    orders = Table("orders", "how many", title="Orders by end")
    for group, count in sorted(report.groups.items()):
        orders.add_row(group, str(count))
    console.print(orders)
    ledgers = Table(
        "service", "effects", "undone", "kept", "kept by the store", title="Ledgers against store"
    )
    for tally in report.tallies:
        kept = tally.effects - tally.undone
        numbers = (tally.effects, tally.undone, kept, tally.recorded)
        ledgers.add_row(tally.service, *map(str, numbers), style="" if kept == tally.recorded else "red")
    console.print(ledgers)
    for line in (report.differences + report.amiss)[:20]:
        console.print(line, style="red", markup=False, highlight=False)


def _group(order: str, state: str, records: Records, undone: set[str]) -> str:
    if state != "compensated":
        return state
    if order in undone:
        return "compensated, with real undos"
    by_check = "refused by check-order" if order in records.refused else "refused before any effect"
    return f"compensated, nothing to undo ({by_check})"


def _tally(service: str, effects: Sequence[Mapping[str, Any]], records: Records) -> Tally:
    directions = Counter(effect["direction"] for effect in effects if effect["service"] == service)
    recorded = sum(steps.get(service) == "done" for steps in records.steps.values())
    return Tally(service, directions["do"], directions["undo"], recorded)


def _told_otherwise(ends: Mapping[str, str], following: Following) -> Iterable[str]:
    for order_id, status in sorted(following.last.items()):
        state = ends.get(f"{CLIENT}/{order_id}")
        if state != STATE_OF_STATUS.get(status, status):
            yield f"{CLIENT}/{order_id} ({state}): the client was told that it is {status}"
    if missing := ends.keys() - {f"{CLIENT}/{order_id}" for order_id in following.last}:
        yield f"the client was told nothing of {len(missing)} orders, such as {min(missing)}"
