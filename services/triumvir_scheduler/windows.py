"""What can be dispatched now: which agents are live, what they offer, and how much is under way to each.

An agent's window is twice its live slots, counted over the whole fleet from the store; between two looks this
process adds what it sends and takes off what it sees answered. It is soft: several schedulers may overshoot it.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

from triumvir.runtime.applied import Applied
from triumvir.runtime.definitions import Definitions
from triumvir.store import pauses
from triumvir.store.session import Session
from triumvir.store.statements import statement
from triumvir.telemetry import metrics
from triumvir.workflow import Wait

WINDOW_PER_SLOT: Final = 2
CONTINUING_PER_SLOT: Final = 4
"""An order between two steps may exceed the window by as much again, rather than be held half-way."""
LOOK_SECONDS: Final = 1.0
SHORTEST_LOOK_SECONDS: Final = 0.02
WINDOW: Final = "window:"


class Windows:
    """The present capacity of every agent."""

    def __init__(self, session: Session, definitions: Definitions, batch_limit: int) -> None:
        self._session = session
        self._definitions = definitions
        self._batch_limit = batch_limit
        self._offered: frozenset[str] = frozenset()
        self._slots: Counter[str] = Counter()
        self._under_way: Counter[str] = Counter()
        self._first_agents: frozenset[str] = frozenset()
        self._looked_at = float("-inf")
        self._paused = pauses.Paused()
        self.held_windows: set[str] = set()

    def look_again(self) -> None:
        """Something may have changed: the next refresh does not wait for its second."""
        self._looked_at = min(self._looked_at, time.monotonic() - LOOK_SECONDS)

    async def refresh(self, *, needed: bool = False) -> None:
        """Looks at the store again: once a second, or at once (within reason) when ``needed``."""
        since = time.monotonic() - self._looked_at
        if since < (SHORTEST_LOOK_SECONDS if needed else LOOK_SECONDS):
            return
        async with self._session.connection() as connection:
            instances = await statement("live_instances").rows(connection)
            requests = await statement("requests_under_way").rows(connection)
            held = await statement("held_reasons").rows(connection)
            latest = await statement("latest_versions").rows(connection)
            lag = await statement("recovery_lag").value(connection)
            paused = await pauses.read(connection)
            known = {(row["workflow"], row["version"]) for row in requests}
            current = {(row["name"], row["version"]) for row in latest}
            await self._definitions.load(connection, known | current)
        metrics.RECOVERY_LAG.set(lag)
        self._offered = frozenset(operation for row in instances for operation in row["operations"])
        self._slots = Counter()
        for row in instances:
            for agent in {operation.split("/")[0] for operation in row["operations"]}:
                self._slots[agent] += row["slots"]
        self._under_way = Counter()
        for row in requests:
            agent = self._agent_of(row["workflow"], row["version"], row["step"])
            self._under_way[agent] += row["requests"]
        self._first_agents = frozenset(agent for key in current for agent in self._agents_of_first_step(*key))
        self.held_windows = {row["held_by"] for row in held if row["held_by"].startswith(WINDOW)}
        self._paused = paused
        self._looked_at = time.monotonic()

    def room(self, agent: str) -> int:
        """How many requests may still be sent to an agent."""
        return max(0, WINDOW_PER_SLOT * self._slots[agent] - self._under_way[agent])

    def claim_room(self) -> int:
        """How many new orders are worth claiming now: those whose agent is absent are claimed too, to be held.

        It says nothing of orders that were begun before: they may be at any step.
        """
        return max(
            (self.room(agent) if agent in self._slots else self._batch_limit for agent in self._first_agents),
            default=self._batch_limit,
        )

    def releasable(self) -> dict[str, int]:
        """Window holds that can be lifted now, and from how many orders."""
        rooms = {reason: self.room(reason.removeprefix(WINDOW)) for reason in self.held_windows}
        return {reason: min(room, self._batch_limit) for reason, room in rooms.items() if room > 0}

    def reserve(self) -> Reservation:
        """The view of one transaction, which counts what it is about to send."""
        return Reservation(self)

    def reason(self, agent: str, operation: str, reserved: int, per_slot: int) -> str | None:
        """Why an operation cannot be dispatched now; None if it can."""
        if (pause := self._paused.agent(agent)) is not None:
            return pause.held_by
        if agent not in self._slots:
            return f"agent:{agent}"
        if f"{agent}/{operation}" not in self._offered:
            return f"operation:{agent}/{operation}"
        if self._under_way[agent] + reserved >= per_slot * self._slots[agent]:
            return f"{WINDOW}{agent}"
        return None

    def paused(self, workflow: str, version: int) -> str | None:
        """What holds the orders of a workflow because operators paused it; None if they did not."""
        pause = self._paused.workflow(workflow, version)
        return None if pause is None else pause.held_by

    def note(self, applied: Applied) -> None:
        """Counts what a committed transaction sent and what it saw answered."""
        for before, decision in applied.decisions:
            after = decision.record
            was, now = set(before.under_way), set(after.under_way)
            for over in was - now:
                agent = self._agent_of(before.workflow, before.version, over.step_no)
                self._under_way[agent] = max(0, self._under_way[agent] - 1)
            for begun in now - was:
                self._under_way[self._agent_of(after.workflow, after.version, begun.step_no)] += 1
            if after.held_by is not None and after.held_by.startswith(WINDOW):
                self.held_windows.add(after.held_by)

    def _agent_of(self, workflow: str, version: int, step_no: int) -> str:
        """The agent of a step; of a workflow without a definition, none that exists."""
        found = self._definitions.find(workflow, version)
        return "" if found is None else found.step(step_no).agent

    def _agents_of_first_step(self, workflow: str, version: int) -> set[str]:
        """Of the first step that has one, and of those that come first if the steps before them are skipped."""
        found = self._definitions.find(workflow, version)
        if found is None:
            return {""}
        agents = set()
        for step in found.steps:
            if isinstance(step, Wait):
                continue
            agents.add(step.agent)
            if step.when is None:
                break
        return agents


class Reservation:
    """What one transaction has room for; thrown away with it if it does not commit."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._reserved: Counter[str] = Counter()

    def reason_to_hold(self, agent: str, operation: str) -> str | None:
        """For orders that begin an attempt."""
        return self._reason(agent, operation, WINDOW_PER_SLOT)

    def reason_to_continue(self, agent: str, operation: str) -> str | None:
        """For orders between two steps."""
        return self._reason(agent, operation, CONTINUING_PER_SLOT)

    def _reason(self, agent: str, operation: str, per_slot: int) -> str | None:
        reason = self._windows.reason(agent, operation, self._reserved[agent], per_slot)
        if reason is None:
            self._reserved[agent] += 1
        return reason
