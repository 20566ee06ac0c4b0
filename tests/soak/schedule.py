"""What will go wrong, when, and for how long: drawn from a seed before anything is started.

Faults stand in strands. Those of one strand come one after the other, the strands run beside each other: so a service
is killed while another sleeps, the broker is away, a remote service hangs and an operator is at work.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.faults.cluster import STRAIGHT
from tests.faults.test_f22_lost_commit_replies import PATHS

SERVICES: Final = tuple(f"{place} {kind}" for kind in STRAIGHT for place in ("first", "second"))
CUT_OFF: Final = "second supervisor"
"""The one that has a way of its own to the database."""
NO_TARGET: Final = ("",)


@dataclass(frozen=True, slots=True)
class Sort:
    """One sort of fault: how often beside its neighbours, how many seconds it lasts, what it may hit."""

    name: str
    weight: int
    lasts: tuple[float, float] = (0.0, 0.0)
    targets: tuple[str, ...] = SERVICES


@dataclass(frozen=True, slots=True)
class Strand:
    """Sorts of fault of which one at a time is there, and the seconds between two of them."""

    between: tuple[float, float]
    sorts: tuple[Sort, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """Begins ``waits`` seconds after the one before it in its strand is over: what takes longer on a busy machine
    leaves no less time to recover. ``lot``, from 0 to 1, chooses among what is there by then.
    """

    waits: float
    strand: str
    sort: str
    target: str
    lasts: float
    lot: float

    def __str__(self) -> str:
        target = f" {self.target}" if self.target else ""
        return f"{self.sort}{target}{f' for {self.lasts:.1f} s' if self.lasts else ''}"


STRANDS: Final[Mapping[str, Strand]] = {
    "processes": Strand(
        (3.0, 12.0),
        (
            Sort("kill", 10),
            Sort("restart", 2),
            Sort("clock ahead", 2),
            Sort("clock behind", 2),
        ),
    ),
    "roll": Strand((10.0, 120.0), (Sort("rolling restart", 1, targets=NO_TARGET),)),
    "sleepers": Strand((4.0, 20.0), (Sort("sleep past the lease", 1, (4.0, 9.0)),)),
    "servers": Strand(
        (8.0, 25.0),
        (
            Sort("broker kill", 1, targets=NO_TARGET),
            Sort("broker cut", 4, targets=NO_TARGET),
            Sort("broker silent", 3, (1.0, 6.0), NO_TARGET),
            Sort("Postgres crash", 4, targets=NO_TARGET),
            Sort("database out of reach of", 3, (4.0, 9.0), (CUT_OFF,)),
        ),
    ),
    "commits": Strand((0.3, 3.0), (Sort("lost answer to a commit of", 1, targets=PATHS),)),
    "outside": Strand(
        (1.0, 6.0),
        (
            Sort("remote slow", 2, (2.0, 6.0), NO_TARGET),
            Sort("remote fails", 2, (1.0, 5.0), NO_TARGET),
            Sort("remote hangs before its effect", 1, (1.0, 5.0), NO_TARGET),
            Sort("remote hangs after its effect", 1, (1.0, 5.0), NO_TARGET),
        ),
    ),
    "operators": Strand(
        (0.5, 3.0),
        (
            Sort("pause of an order", 3, (0.5, 4.0), NO_TARGET),
            Sort("pause of workflow", 1, (0.5, 4.0), ("trade", "choosy", "halting")),
            Sort("pause of agent", 1, (0.5, 4.0), ("goods", "money")),
            Sort("cancel", 4, targets=NO_TARGET),
            Sort("move of a resting order", 6, targets=NO_TARGET),
        ),
    ),
}


def planned(seed: int, seconds: float) -> Mapping[str, Sequence[Fault]]:
    """The faults of each strand that begin within ``seconds`` if none takes longer than it lasts, in their order; the
    same ones for the same seed. Those of a longer soak begin as those of a shorter one do.
    """
    return {name: list(_drawn(name, strand, seed, seconds)) for name, strand in STRANDS.items()}


def _drawn(name: str, strand: Strand, seed: int, seconds: float) -> Iterator[Fault]:
    chance = random.Random(f"{seed} {name}")
    over = 0.0
    for sort in _sorts(strand, chance):
        waits, lasts = round(chance.uniform(*strand.between), 1), round(chance.uniform(*sort.lasts), 1)
        if over + waits >= seconds:
            return
        yield Fault(waits, name, sort.name, chance.choice(sort.targets), lasts, chance.random())
        over += waits + lasts


def _sorts(strand: Strand, chance: random.Random) -> Iterator[Sort]:
    """Each once first, so that a short soak has as many sorts as fit; then by their weights."""
    yield from chance.sample(strand.sorts, len(strand.sorts))
    weights = [sort.weight for sort in strand.sorts]
    while True:
        yield from chance.choices(strand.sorts, weights)
