"""Processes of agents: which one takes requests, and whose lease still runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from triumvir.settings import Settings
from triumvir.testing.rehearsing.clock import Clock


@dataclass(slots=True, eq=False)
class Instance:
    """A process of one agent. ``silent_since``: it was killed or paused then, and renews its lease no more."""

    no: int
    agent: str
    started: float
    silent_since: float | None = None
    dead: bool = False
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)


class Instances:
    """One live process for each agent. What falls silent is replaced at once; its lease runs out later."""

    def __init__(self, agents: Iterable[str], clock: Clock, settings: Settings) -> None:
        self._clock = clock
        self._lease = settings.instance_lease.total_seconds()
        self._renewal = settings.instance_renewal.total_seconds()
        self._all: list[Instance] = []
        self._serving = {agent: self._start(agent) for agent in agents}

    def serving(self, agent: str) -> Instance:
        """The process that takes the agent's requests now."""
        return self._serving[agent]

    def silence(self, instance: Instance) -> None:
        """It renews its lease no more; another one takes requests."""
        instance.silent_since = self._clock.seconds()
        self._serving[instance.agent] = self._start(instance.agent)

    def kill(self, instance: Instance) -> None:
        """Ends the process and all that it does."""
        self.silence(instance)
        instance.dead = True
        for task in instance.tasks:
            task.cancel()

    def is_leased(self, no: int) -> bool:
        """Whether the others still take it for alive."""
        instance = self._all[no - 1]
        if instance.silent_since is None:
            return True
        renewals = (instance.silent_since - instance.started) // self._renewal
        return self._clock.seconds() < instance.started + renewals * self._renewal + self._lease

    def _start(self, agent: str) -> Instance:
        instance = Instance(len(self._all) + 1, agent, self._clock.seconds())
        self._all.append(instance)
        return instance
