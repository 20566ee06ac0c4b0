"""How fast recovery may go: a rate that all supervisors share, so that an outage does not end in a wall of work."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

FIRST_SECONDS: Final = 1.0
"""A process that starts may recover as much as in so many seconds: after an outage all of them start at once."""


class Pace:
    """What this process may recover now: its share of ``rate`` a second, saved up to its share of ``most``.

    >>> now = [0.0]
    >>> pace = Pace(rate=100, most=500, clock=lambda: now[0])
    >>> pace.allowance(sharers=2)
    50
    >>> pace.spend(50)
    >>> now[0] = 1.0
    >>> pace.allowance(sharers=2), pace.allowance(sharers=1)
    (50, 50)
    >>> now[0] = 60.0
    >>> pace.allowance(sharers=2)
    250
    """

    def __init__(self, rate: float, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._most = most
        self._clock = clock
        self._saved = 0.0
        self._looked_at = clock() - FIRST_SECONDS

    def allowance(self, sharers: int) -> int:
        """How many orders may be recovered now; ``sharers``: supervisors that live, this one among them."""
        now = self._clock()
        earned = self._rate / sharers * (now - self._looked_at)
        self._saved = min(self._saved + earned, max(1.0, self._most / sharers))
        self._looked_at = now
        return max(0, int(self._saved))

    def spend(self, recovered: int) -> None:
        """So many were."""
        self._saved -= recovered
