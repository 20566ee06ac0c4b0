"""Compares the ledgers of the shop with the end states that Triumvir keeps. They must agree exactly."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Literal

SERVICES = ("inventory", "payments", "shipping")
"""In the order in which the workflow goes through them."""

UNDONE = frozenset({"compensated", "cancelled"})

Recorded = Literal["done", "undone", "none", "in doubt"]
"""What the store holds of a step: its effect stands, was undone, was never made, or is not known."""

Effects = Mapping[str, list[Mapping[str, Any]]]
"""The effects of one order by service, each in order of time."""


def differences(
    effects: Iterable[Mapping[str, Any]],
    ends: Mapping[str, str],
    *,
    calls: Iterable[Mapping[str, Any]] = (),
    refused: Collection[str] = (),
    recorded: Mapping[str, Mapping[str, Recorded]] | None = None,
) -> list[str]:
    """What does not agree, in words; empty if all does.

    ``effects`` and ``calls`` are the lines of the three ledgers (``services/ledger.py``) as dicts with ``service``,
    ``order``, ``direction``, ``key``, ``amount``, ``at``. ``ends`` gives the state of every order, ``refused`` the
    orders that check-order refused, ``recorded`` what the store holds of each order's step at each service; all
    name an order as the ledgers do, ``client/order_id``.
    """
    effects = list(effects)
    by_order = _by_order(effects)
    strangers = sorted(by_order.keys() - ends.keys())
    found = [
        *_doubled_keys(effects),
        *(f"{order}: the shop has effects of an order that the store does not know" for order in strangers),
    ]
    for order, state in sorted(ends.items()):
        found += [f"{order} ({state}): {fault}" for fault in _faults(state, by_order.get(order, {}))]
    for order, steps in sorted((recorded or {}).items()):
        found += [f"{order}: {fault}" for fault in _disagreements(steps, by_order.get(order, {}))]
    touched = by_order.keys() | {call["order"] for call in calls}
    called = sorted(touched & set(refused))
    return found + [
        f"{order}: check-order refused it, and yet a service was called for it" for order in called
    ]


def amounts_apart(effects: Iterable[Mapping[str, Any]], kept: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Where the ledgers stand at another amount than the store has kept of the step, in words.

    ``kept`` gives, by order and service, the amount in the result of each step that is done and not undone.
    """
    found: list[str] = []
    for order, by_service in sorted(_by_order(effects).items()):
        for service, at_service in by_service.items():
            stands = sum((_signed(effect) for effect in at_service), Decimal(0))
            told = Decimal(kept.get(order, {}).get(service, 0))
            if stands != told:
                found.append(f"{order}: {service} stands at {stands}, and the store has {told}")
    return found


def really_undone(effects: Iterable[Mapping[str, Any]]) -> set[str]:
    """The orders of which at least one effect was undone."""
    return {effect["order"] for effect in effects if effect["direction"] == "undo"}


def _by_order(effects: Iterable[Mapping[str, Any]]) -> dict[str, Effects]:
    by_order: dict[str, dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for effect in sorted(effects, key=lambda effect: float(effect["at"])):
        by_order[effect["order"]][effect["service"]].append(effect)
    return {order: dict(by_service) for order, by_service in by_order.items()}


def _doubled_keys(effects: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    counts = Counter((effect["service"], effect["key"]) for effect in effects)
    for (service, key), count in sorted(counts.items()):
        if count > 1:
            yield f"{key}: {count} effects at {service} under one key"


def _faults(state: str, effects: Effects) -> Iterator[str]:
    if state == "processed":
        for service in SERVICES:
            yield from _faults_of_done(service, effects.get(service, []))
    elif state in UNDONE:
        for service in SERVICES:
            yield from _faults_of_undone(service, effects.get(service, []))
        yield from _faults_of_order(effects)
    else:
        yield "it has not come to an end"


def _faults_of_done(service: str, effects: list[Mapping[str, Any]]) -> Iterator[str]:
    done, undone = _count(effects, "do"), _count(effects, "undo")
    if (done, undone) != (1, 0):
        yield f"{service} has {done} effects and {undone} undos; one effect and no undo belong there"


def _faults_of_undone(service: str, effects: list[Mapping[str, Any]]) -> Iterator[str]:
    done, undone = _count(effects, "do"), _count(effects, "undo")
    if done != undone:
        yield f"{service} has {done} effects and {undone} undos; each effect must be undone once"
    elif done > 1:
        yield f"{service} did and undid it {done} times; once is enough"
    elif done == 1 and effects[0]["direction"] == "undo":
        yield f"{service} undid it before it was done"
    elif (left := sum(_signed(effect) for effect in effects)) != 0:
        yield f"{service} undid another amount than it did; {left} is left"


def _faults_of_order(effects: Effects) -> Iterator[str]:
    """Undos must run in the reverse of the order of the steps."""
    undos = [
        effect for of_service in effects.values() for effect in of_service if effect["direction"] == "undo"
    ]
    undone = [effect["service"] for effect in sorted(undos, key=lambda effect: float(effect["at"]))]
    expected = [service for service in reversed(SERVICES) if service in undone]
    if undone != expected:
        yield f"undone in the order {', '.join(undone)}; it should be {', '.join(expected)}"


def _disagreements(steps: Mapping[str, Recorded], effects: Effects) -> Iterator[str]:
    for service in SERVICES:
        at_service = effects.get(service, [])
        done, undone = _count(at_service, "do"), _count(at_service, "undo")
        step = steps.get(service, "none")
        agrees = {
            "done": (done, undone) == (1, 0),
            "undone": (done, undone) in ((0, 0), (1, 1)),
            "none": (done, undone) == (0, 0),
            "in doubt": False,
        }
        if not agrees[step]:
            yield f"the store has the step at {service} as {step}, and the ledger {done} effects and {undone} undos"


def _count(effects: list[Mapping[str, Any]], direction: str) -> int:
    return sum(effect["direction"] == direction for effect in effects)


def _signed(effect: Mapping[str, Any]) -> Decimal:
    return Decimal(effect["amount"]) * (1 if effect["direction"] == "do" else -1)
