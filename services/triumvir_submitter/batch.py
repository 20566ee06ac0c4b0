"""A batch at the door: what its deliveries ask for, and which of them may be handled together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from triumvir.broker import Delivery
from triumvir.contracts.messages import OrderSubmit
from triumvir.runtime.outgoing import DeadLetter
from triumvir_submitter.accept import Submission
from triumvir_submitter.admission import Received


@dataclass(frozen=True, slots=True)
class Refused:
    """A delivery that cannot be acted on, whatever the store says."""

    delivery: Delivery
    letter: DeadLetter


Item = Received | Refused


@dataclass(slots=True)
class Sorted:
    """A batch by what is to be done with it."""

    submissions: list[Submission] = field(default_factory=list)
    commands: list[Received] = field(default_factory=list)
    queries: list[Received] = field(default_factory=list)
    refused: list[DeadLetter] = field(default_factory=list)


def submits(item: Item) -> bool:
    """Whether it is a submission that could be read."""
    return isinstance(item, Received) and isinstance(item.message, OrderSubmit)


def distinct(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Those that may be handled together, and those that submit a key again and have to wait."""
    seen: set[tuple[str, str]] = set()
    batch: list[Item] = []
    for place, item in enumerate(items):
        if isinstance(item, Received) and isinstance(item.message, OrderSubmit):
            if item.key in seen:
                return batch, list(items[place:])
            seen.add(item.key)
        batch.append(item)
    return batch, []
