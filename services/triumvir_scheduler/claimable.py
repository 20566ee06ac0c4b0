"""Why the claim loop should look: for whatever there is, or only at new orders that a hint named."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class Claimable(asyncio.Event):
    """Set when there may be something to claim. ``set`` asks for a look at everything."""

    def __init__(self) -> None:
        super().__init__()
        self._named: set[int] = set()
        self._everything = True

    def set(self) -> None:
        self._everything = True
        super().set()

    def name(self, nos: Iterable[int]) -> None:
        """These orders are new; a look at them will do."""
        self._named.update(nos)
        super().set()

    def take(self) -> list[int]:
        """The orders that were named since the last call; none if everything is to be looked at."""
        named, everything = self._named, self._everything
        self._named, self._everything = set(), False
        return [] if everything else sorted(named)
