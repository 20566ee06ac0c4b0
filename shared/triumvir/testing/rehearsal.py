"""Rehearsals: an author's workflow and agents, run in memory under virtual time, with what may go wrong.

::

    rehearsal = Rehearsal(order_fulfilment, agents=[orders, payments])
    rehearsal.die("charge", at="after_call")
    outcome = await rehearsal.run({"amount": 5})
    assert outcome.state == "processed"
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

from stamina import instrumentation

from triumvir.agent import Agent
from triumvir.contracts.codec import decode_strictly
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import OrderSubmit
from triumvir.contracts.names import Direction
from triumvir.errors import ConfigurationError, ContractError, DefinitionError
from triumvir.settings import of_defaults
from triumvir.testing import virtual_time
from triumvir.testing.rehearsing.agents import RehearsedAgents
from triumvir.testing.rehearsing.clock import START
from triumvir.testing.rehearsing.faults import Faults
from triumvir.testing.rehearsing.order import RehearsedOrder, Submission
from triumvir.testing.rehearsing.outcome import Outcome
from triumvir.testing.rehearsing.plan import FaultPlan
from triumvir.testing.rehearsing.transaction import Connect
from triumvir.workflow import Step, Wait, Workflow

_ONE_AT_A_TIME: Final = threading.Lock()
"""Rehearsals that are awaited together follow one another: chance is one for the process."""


class Rehearsal(FaultPlan):
    """A workflow with its agents, and what will go wrong in each run.

    ``agents``: those that are there; a step whose agent or operation is not among them holds the order, and the
    outcome is ``stuck``. ``settings``: those that differ from their defaults,
    by name (``{"max_failures": 1}``); the environment is not read. ``connect`` makes what ``ctx.transaction()``
    yields: called for each transaction, it returns an asynchronous context manager that commits when it is left, and
    rolls back if an exception is thrown into it. ``seed`` decides on every chance: retries jitter, and ``random`` is
    seeded while a rehearsal runs, so that every run is the same.

    Faults are injected per step, by name, before :meth:`run`. Each strikes in the next ``times`` calls or messages
    that it fits (None: in all of them), once it has let ``skip`` of them pass; on the way forward or, with
    ``undo=True``, in the undo. What cannot be injected raises :class:`~triumvir.errors.ConfigurationError`, naming
    the fix.
    """

    def __init__(
        self,
        workflow: Workflow,
        *,
        agents: Sequence[Agent],
        settings: Mapping[str, object] | None = None,
        connect: Connect | None = None,
        seed: int = 0,
    ) -> None:
        self._agents = _by_name(agents, workflow)
        super().__init__(workflow, self._agents)
        self._settings = of_defaults(settings or {})
        self._connect = connect
        self._seed = seed

    # Running

    async def run(
        self,
        payload: Mapping[str, Any],
        *,
        order_id: str = "order-1",
        progress: bool = False,
        at_most: timedelta | None = None,
    ) -> Outcome:
        """Runs one order to its end, on an event loop of its own in a thread of its own; returns what came of it.

        ``progress``: the client asked to be told of each step. ``at_most``: virtual time after which an order that
        came to no end counts as stuck; a day beyond the longest regular course unless given. May be called again:
        each run begins anew, with the same faults. What is no acceptable submission raises
        :class:`~triumvir.errors.ContractError`.
        """
        return await asyncio.to_thread(
            self.run_blocking, payload, order_id=order_id, progress=progress, at_most=at_most
        )

    def run_blocking(
        self,
        payload: Mapping[str, Any],
        *,
        order_id: str = "order-1",
        progress: bool = False,
        at_most: timedelta | None = None,
    ) -> Outcome:
        """The same for plain tests."""
        if _in_a_loop():
            raise ConfigurationError(
                "run_blocking() is for plain tests; in an asynchronous one, await run(...)"
            )
        submission = Submission(order_id, self._accepted(order_id, payload), progress)
        with _ONE_AT_A_TIME, _quiet_and_seeded(self._seed):
            return virtual_time.run(lambda: self._play(submission, START + (at_most or self._longest())))

    async def _play(self, submission: Submission, until: datetime) -> Outcome:
        faults, chance = Faults(self._faults), random.Random(self._seed)
        order = RehearsedOrder(self._workflow, submission, self._settings, self._hold_reason, chance)
        agents = RehearsedAgents(self._agents, self._settings, faults, self._connect, order)
        order.attach(agents)
        try:
            stuck = await order.play(self._asked, until)
        finally:
            await agents.stop()
        return order.outcome(agents.calls, stuck, faults.unstruck)

    def _accepted(self, order_id: str, payload: Mapping[str, Any]) -> JsonText:
        """The payload as the submitter keeps it, after the checks of the submitter."""
        named = {"order_id": order_id, "workflow": self._workflow.name, "payload": payload}
        body, most = JsonText.of(named).text.encode(), self._settings.max_payload_bytes
        depth = self._settings.max_json_depth
        kept = decode_strictly(OrderSubmit, body, max_bytes=len(body), max_depth=depth).payload
        if not isinstance(kept.value, dict):
            raise ContractError("invalid", "payload", "is not an object", "give a mapping")
        if len(kept.text.encode()) > most:
            raise ContractError("too_large", "payload", f"more than {most} bytes", "pass a reference instead")
        return kept

    def _hold_reason(self, agent: str, operation: str, now: datetime) -> tuple[str, datetime | None] | None:
        end = self._absent.get(agent)
        away = agent in self._absent and (end is None or now < end)
        if agent not in self._agents or away:
            return f"agent:{agent}", end
        if f"{agent}/{operation}" not in self._agents[agent].offers:
            return f"operation:{agent}/{operation}", None
        return None

    def _longest(self) -> timedelta:
        """A day beyond all attempts of all steps, and of all their undos."""
        settings = self._settings
        timeouts = sum(
            (
                step.within if isinstance(step, Wait) else step.complete_within or settings.step_timeout
                for step in self._workflow.steps
            ),
            timedelta(),
        )
        cool_offs = 2 * len(self._workflow.steps) * sum(settings.cool_offs, timedelta())
        attempts = settings.max_failures + len(settings.cool_offs) + 1
        return timedelta(days=1) + 2 * attempts * (timeouts + settings.reopen_backoff_max) + 2 * cool_offs


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def _quiet_and_seeded(seed: int) -> Iterator[None]:
    """Chance is settled, and the log does not tell of retries: each call stands in the outcome."""
    chance, told = random.getstate(), instrumentation.get_on_retry_hooks()
    random.seed(seed)
    instrumentation.set_on_retry_hooks([])
    try:
        yield
    finally:
        random.setstate(chance)
        instrumentation.set_on_retry_hooks(told)


def _by_name(agents: Sequence[Agent], workflow: Workflow) -> dict[str, Agent]:
    """The agents, checked as at their start, and against the workflow."""
    named: dict[str, Agent] = {}
    for agent in agents:
        if agent.name in named:
            raise DefinitionError(f"two agents are called {agent.name!r}; give each name once")
        agent.check()
        named[agent.name] = agent
    for step in workflow.steps:
        if isinstance(step, Wait):
            continue
        _check_offer(step, named.get(step.agent))
    return named


def _check_offer(step: Step, agent: Agent | None) -> None:
    """What is not offered at all holds the order; what is offered as something else would hold it for ever."""
    if agent is None:
        return
    named: list[tuple[str | None, Direction]] = [(step.operation, "do"), (step.undo, "undo")]
    for name, direction in named:
        if name and f"{agent.name}/{name}" in agent.offers and agent.find(name, direction) is None:
            other = "an undo" if direction == "do" else "an operation"
            raise DefinitionError(
                f"step {step.name!r} names {name!r}, which agent {agent.name!r} offers as {other}"
            )
