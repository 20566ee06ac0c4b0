"""A trial of an agent's real operations: what requests go through in production is done to them on purpose.

::

    async def test_payments_keep_what_agents_promise() -> None:
        trial = AgentTrial(payments, {"charge-card": ORDER}, count_effects=charges_of)
        report = await trial.run()
        assert report.sound, report

The operations are called in this process, against whatever remote service they are set up for. No broker and no
database is needed.
"""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from triumvir.agent import Agent
from triumvir.errors import DefinitionError
from triumvir.testing.trialling.calls import Subject, Tried
from triumvir.testing.trialling.promises import OF_OPERATIONS, OF_UNDOS, Broken, Promise

CountEffects = Callable[[str, str], "int | Awaitable[int]"]
"""``(order_key, operation)`` to the net effects that stand for that order now: done and not undone."""


@dataclass(frozen=True, slots=True)
class TrialLine:
    """One promise of one operation. ``broken`` says how it was broken; None if it held."""

    operation: str
    promise: str
    broken: str | None = None

    def __str__(self) -> str:
        said = "holds" if self.broken is None else f"BROKEN: {self.broken}"
        return f"{self.operation}: {self.promise}: {said}"


@dataclass(frozen=True, slots=True)
class TrialReport:
    """Every promise that was tried, in order. ``sound``: all of them held. As text, a line for each."""

    lines: tuple[TrialLine, ...]

    @property
    def broken(self) -> tuple[TrialLine, ...]:
        return tuple(line for line in self.lines if line.broken is not None)

    @property
    def sound(self) -> bool:
        return not self.broken

    def __str__(self) -> str:
        return "\n".join(map(str, self.lines))


class AgentTrial:
    """Tries the operations of ``agent`` that ``payloads`` name, each with its payload (what a step would hand it), and
    their undos.

    ``count_effects`` asks the remote service itself, say its database, never what the agent says. ``failing`` are
    payloads with which an operation fails: what it then says of its effect is compared. ``seconds``: the time a
    request is given; ``calls``: how often it is called at most while it fails for the time being. Every promise is
    tried with orders of its own, of the client ``trial``; ``order_ids`` names them, if that is not left to chance;
    their step is ``tried``. Operations that use
    ``ctx.transaction()`` are not for this: their effect is in the commit that records it.
    """

    def __init__(
        self,
        agent: Agent,
        payloads: Mapping[str, Any],
        *,
        count_effects: CountEffects,
        failing: Mapping[str, Any] | None = None,
        seconds: float = 10.0,
        calls: int = 3,
        order_ids: Iterator[str] | None = None,
    ) -> None:
        agent.check()
        unknown = [name for name in (*payloads, *(failing or {})) if agent.find(name, "do") is None]
        if unknown or not payloads:
            problem = f"it has no operation {unknown[0]!r}" if unknown else "no payload is given"
            raise DefinitionError(f"trial of agent {agent.name!r}: {problem}; it offers {agent.offers}")
        self._agent = agent
        self._payloads = payloads
        self._failing = failing or {}
        self._count_effects = count_effects
        self._seconds = seconds
        self._calls = calls
        self._order_ids = order_ids or (f"trial-{secrets.token_hex(8)}" for _ in count())

    async def run(self) -> TrialReport:
        """Tries everything; what is broken is in the report, not raised."""
        lines: list[TrialLine] = []
        for name, payload in self._payloads.items():
            lines += await self._tried(name, payload)
        return TrialReport(tuple(lines))

    async def _tried(self, name: str, payload: Any) -> list[TrialLine]:
        undo = self._agent.undo_of(name)
        promises: Collection[Promise] = OF_OPERATIONS if undo is None else (*OF_OPERATIONS, *OF_UNDOS)
        lines: list[TrialLine] = []
        for promise in promises:
            if promise.fails and name not in self._failing:
                continue
            given = self._failing[name] if promise.fails else payload
            lines.append(TrialLine(name, promise.text, await self._broken(promise, name, undo, given)))
            if lines[-1].broken is not None and promise is _FIRST:
                break  # nothing else can be said of an operation that does not work at all
        return lines

    async def _broken(self, promise: Promise, name: str, undo: str | None, payload: Any) -> str | None:
        async def effects(order_key: str) -> int:
            counted = self._count_effects(order_key, name)
            return await counted if inspect.isawaitable(counted) else counted

        subject = Subject(
            self._agent, name, undo, payload, self._seconds, self._calls, effects, self._order_ids
        )
        try:
            await promise.play(Tried(subject))
        except Broken as broken:
            return str(broken)
        return None


_FIRST: Final = OF_OPERATIONS[0]
