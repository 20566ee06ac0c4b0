"""A remote service that dedupes by idempotency key, with a ledger of every call and its net effect."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from triumvir.contracts.names import Direction

Outcome = Literal["works", "works-unheard", "refuses", "busy"]
"""``works-unheard``: the call takes effect and its answer is lost. ``busy``: not now, nothing happened."""

StepKey = tuple[int, int]
"""Order number and step number."""


class Remote:
    """Does and undoes; a key that was served once is answered from memory ever after."""

    def __init__(self) -> None:
        self.net: Counter[StepKey] = Counter()
        self.calls: Counter[tuple[StepKey, Direction]] = Counter()
        self.served: set[str] = set()

    def serve(self, step: StepKey, direction: Direction, key: str, outcome: Outcome) -> Outcome:
        """What the caller sees. A key in memory is answered with success, whatever the mood."""
        if key in self.served:
            return "works-unheard" if outcome == "works-unheard" else "works"
        if outcome in ("works", "works-unheard"):
            self.served.add(key)
            self._take_effect(step, direction)
        return outcome

    def by_hand(self, step: StepKey, direction: Direction) -> None:
        """An operator sees to it, without a key: it is done once, or not there any more."""
        self.net[step] = 1 if direction == "do" else 0

    def _take_effect(self, step: StepKey, direction: Direction) -> None:
        if direction == "do":
            self.net[step] += 1
        elif self.net[step] > 0:  # an undo accepts that there is nothing to undo
            self.net[step] -= 1
