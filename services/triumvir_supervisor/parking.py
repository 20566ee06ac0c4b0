"""Orders whose recovery raises: each is left alone for a while, longer each time, so that the others go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from triumvir.telemetry import metrics

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 300.0


class Parking:
    """In memory: another process, or the next life of this one, finds out for itself.

    >>> now = [0.0]
    >>> parking = Parking(clock=lambda: now[0])
    >>> [parking.park(7) for _ in range(3)]
    [1.0, 2.0, 4.0]
    >>> now[0] = 3.9
    >>> parking.holds(7), parking.holds(8)
    (True, False)
    >>> now[0] = 4.0
    >>> parking.holds(7)
    False
    >>> parking.forget(7)
    >>> parking.park(7)
    1.0
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[int, tuple[float, float]] = {}

    def holds(self, no: int) -> bool:
        """Whether an order is left alone now."""
        return no in self._until and self._clock() < self._until[no][0]

    def park(self, no: int) -> float:
        """Its recovery raised: for how many seconds it is left alone."""
        _, before = self._until.get(no, (0.0, FIRST_SECONDS / 2))
        seconds = min(LONGEST_SECONDS, before * 2)
        self._until[no] = self._clock() + seconds, seconds
        metrics.SUPERVISOR_PARKED.set(len(self._until))
        return seconds

    def forget(self, no: int) -> None:
        """It was recovered."""
        if self._until.pop(no, None) is not None:
            metrics.SUPERVISOR_PARKED.set(len(self._until))
