"""The event loop's own pulse: how late timers are, and proof for the watchdog that the loop turns at all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from triumvir.telemetry import metrics

BEAT_SECONDS: Final = 1.0


class Pulse:
    """Beats once a second for as long as the event loop is not blocked."""

    name = "event loop"

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beat_at = clock()

    def stalled_for(self, now: float) -> float:
        """Seconds by which the beat is overdue."""
        return max(0.0, now - self._beat_at - BEAT_SECONDS)

    def beat(self) -> None:
        """The event loop got here; how late it did is recorded."""
        now = self._clock()
        metrics.LOOP_LAG_SECONDS.record(max(0.0, now - self._beat_at - BEAT_SECONDS))
        self._beat_at = now

    async def run(self) -> None:
        """Beat until cancelled."""
        self._beat_at = self._clock()
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self.beat()
