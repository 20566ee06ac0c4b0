"""What was done in a soak, and when."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.schedule import Fault
from tests.waiting import eventually


class Clock:
    """Seconds since the faults began; ``began_at``, in seconds since 1970, is when that was."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self.began_at = time.time()

    @property
    def seconds(self) -> float:
        return self._loop.time() - self._began

    async def reach(self, seconds: float) -> None:
        """Until then."""
        left = max(0.0, seconds - self.seconds)
        await eventually(lambda: self.seconds >= seconds, within=left + 60, what="the time")

    async def passes(self, seconds: float, *, unless: asyncio.Event) -> bool:
        """Whether so many seconds passed before this was set."""
        until = self.seconds + seconds
        await eventually(
            lambda: self.seconds >= until or unless.is_set(), within=seconds + 60, what="the time"
        )
        return not unless.is_set()


@dataclass(frozen=True)
class Done:
    """A fault that was there from ``began`` until it was ``over``, in seconds; ``fired`` unless it met nobody."""

    began: float
    over: float
    fault: Fault
    fired: bool

    def __str__(self) -> str:
        return f"{self.began:6.1f} to {self.over:6.1f} s  {self.fault}{'' if self.fired else ' (met nobody)'}"


@dataclass
class Journal:
    """What was done, in order of its end; a line each in the file at ``path``, too."""

    path: Path
    done: list[Done] = field(default_factory=list)

    def note(self, done: Done) -> None:
        self.done.append(done)
        entry = {"began": done.began, "over": done.over, "fault": str(done.fault), "fired": done.fired}
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    @property
    def fired(self) -> Counter[str]:
        """How often each sort met somebody."""
        return Counter(done.fault.sort for done in self.done if done.fired)

    @property
    def missed(self) -> Counter[str]:
        """How often each sort met nobody."""
        return Counter(done.fault.sort for done in self.done if not done.fired)

    def between(self, since: float, until: float) -> list[Done]:
        """What was there in this time."""
        return [done for done in self.done if done.began <= until and done.over >= since]
