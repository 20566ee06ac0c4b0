"""What will go wrong in a rehearsal, as an author writes it down."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, Literal

from triumvir.contracts.json_text import JsonText
from triumvir.contracts.names import Direction
from triumvir.errors import ConfigurationError, OperationError, Permanent, Transient
from triumvir.lifecycle import CancelRequested, Event, Signalled
from triumvir.testing.rehearsing.clock import START
from triumvir.testing.rehearsing.faults import Fault, Kind, Point
from triumvir.workflow import Wait, Workflow

Seconds = float | timedelta
"""A number is seconds."""
Effect = Literal["none", "unknown"]


class FaultPlan:
    """Faults by the name of the step; each strikes in the next ``times`` calls or messages that it fits,
    once it has let ``skip`` of them pass."""

    def __init__(self, workflow: Workflow, agents: Collection[str]) -> None:
        self._workflow = workflow
        self._names = agents
        self._faults: list[Fault] = []
        self._asked: list[tuple[datetime, Event]] = []
        self._absent: dict[str, datetime | None] = {}

    def fail(
        self,
        step: str,
        *,
        permanently: str | None = None,
        transiently: str | None = None,
        effect: Effect | None = None,
        retry_after: Seconds | None = None,
        at: Literal["before_call", "after_call"] = "before_call",
        times: int | None = 1,
        skip: int = 0,
        undo: bool = False,
    ) -> None:
        """The call fails, with :class:`~triumvir.errors.Permanent` or :class:`~triumvir.errors.Transient` of this text.

        ``before_call``: instead of calling the author's function. ``after_call``: once it has returned; its effect is
        there and the answer is lost. ``effect`` and ``retry_after`` are those of the exceptions.
        """
        if (permanently is None) == (transiently is None):
            raise ConfigurationError(
                "fail: say either permanently= or transiently=, with the text of the error"
            )
        wait = None if retry_after is None else timedelta(seconds=_seconds("retry_after", retry_after))

        def error() -> OperationError:
            if permanently is not None:
                return Permanent(permanently, effect=effect)
            return Transient(transiently or "", effect=effect, retry_after=wait)

        error()  # raises now what is wrong with it
        self._inject("fail", step, at, (times, skip), undo, error=error)

    def undo_fails(
        self,
        step: str,
        *,
        permanently: str | None = None,
        transiently: str | None = None,
        times: int | None = None,
        skip: int = 0,
    ) -> None:
        """The undo of a step fails; every time, unless ``times`` says how often."""
        self.fail(step, permanently=permanently, transiently=transiently, times=times, skip=skip, undo=True)

    def die(
        self,
        step: str,
        *,
        at: Literal["before_call", "after_call", "before_reply"] = "before_call",
        times: int | None = 1,
        skip: int = 0,
        undo: bool = False,
    ) -> None:
        """The agent's process is killed: before the author's function is called, after it returned and before that
        was written down, or before the reply was sent. Another process takes its place at once.
        """
        self._inject("die", step, at, (times, skip), undo)

    def pause(
        self, step: str, *, by: Seconds, times: int | None = 1, skip: int = 0, undo: bool = False
    ) -> None:
        """The agent's process freezes after the call and before it has written anything down; its lease runs out.
        After so long it wakes up and goes on as if nothing had happened: its success may come late.
        """
        self._inject("pause", step, "before_record", (times, skip), undo, seconds=_seconds("by", by))

    def scheduler_dies(self, step: str, *, times: int | None = 1, skip: int = 0, undo: bool = False) -> None:
        """The scheduler's process is killed once the dispatch is committed and before the request is sent. Another one
        sends it from the outbox when ``outbox_lease`` has lapsed; once ``instance_lease`` has, a supervisor brings the
        next retry forward to ``action_recovery_delay`` from then, if it is due later.
        """
        self._inject("orphan", step, "request", (times, skip), undo)

    def delay(
        self,
        step: str,
        *,
        by: Seconds,
        what: Literal["request", "call", "answer", "reply"] = "reply",
        times: int | None = 1,
        skip: int = 0,
        undo: bool = False,
    ) -> None:
        """Something takes so long: the ``request`` on its way to the agent; the ``call`` before the author's function
        runs; the ``answer`` after it has run, within the time of the call; the ``reply`` on its way to the scheduler.
        """
        points: dict[str, Point] = {"call": "before_call", "answer": "after_call"}
        point = points.get(what, "request" if what == "request" else "reply")
        self._inject("delay", step, point, (times, skip), undo, seconds=_seconds("by", by))

    def double(
        self,
        step: str,
        *,
        what: Literal["request", "reply"] = "reply",
        times: int | None = 1,
        skip: int = 0,
        undo: bool = False,
    ) -> None:
        """A message comes twice."""
        self._inject("double", step, what, (times, skip), undo)

    def drop(
        self,
        step: str,
        *,
        what: Literal["request", "reply"] = "reply",
        times: int | None = 1,
        skip: int = 0,
        undo: bool = False,
    ) -> None:
        """A message never comes."""
        self._inject("drop", step, what, (times, skip), undo)

    def cancel_at(self, time: Seconds) -> None:
        """The client cancels so long after its order was accepted."""
        self._asked.append((_time(time), CancelRequested()))

    def signal(self, name: str, data: Any = None, *, at: Seconds) -> None:
        """The signal of this name comes so long after the acceptance of the order, with ``data``, a JSON value;
        ``at=0``: before any step is begun.
        """
        if self._workflow.wait_for(name) is None:
            known = _list(self._workflow.signals)
            raise ConfigurationError(
                f"signal: no step of {self._workflow.name} waits for {name!r}; the signals are {known}"
            )
        self._asked.append((_time(at), Signalled(name, JsonText.of(data).text)))

    def cancel_during(self, step: str, *, undo: bool = False) -> None:
        """The client cancels while the step's first call is being made."""
        self._inject("cancel", step, "before_call", (1, 0), undo)

    def absent(self, agent: str, *, until: Seconds | None = None) -> None:
        """No process of the agent runs, for good or until that time after the acceptance."""
        if agent not in self._names:
            raise ConfigurationError(f"absent: there is no agent {agent!r}; there are {_list(self._names)}")
        end = None if until is None else START + timedelta(seconds=_seconds("until", until))
        self._absent[agent] = end

    def _inject(
        self,
        kind: Kind,
        step: str,
        point: Point,
        how_often: tuple[int | None, int],
        undo: bool,
        *,
        seconds: float = 0.0,
        error: Callable[[], OperationError] | None = None,
    ) -> None:
        found = next((each for each in self._workflow.steps if each.name == step), None)
        if found is None:
            names = _list(each.name for each in self._workflow.steps)
            raise ConfigurationError(
                f"{kind}: there is no step {step!r} in {self._workflow.name}; there are {names}"
            )
        if isinstance(found, Wait):
            raise ConfigurationError(
                f"{kind}: step {step!r} waits for signal {found.signal!r} and calls nothing; use signal(), or nothing"
            )
        if undo and found.undo is None:
            raise ConfigurationError(f"{kind}: step {step!r} has no undo")
        times, skip = how_often
        if (times is not None and times < 1) or skip < 0:
            problem = f"times is {times}, skip {skip}; give times from 1 on, or None for every time, and skip from 0 on"
            raise ConfigurationError(f"{kind}: {problem}")
        direction: Direction = "undo" if undo else "do"
        self._faults.append(Fault(kind, step, direction, point, times, skip, seconds, error))


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _time(value: Seconds) -> datetime:
    return START + timedelta(seconds=_seconds("time", value))


def _seconds(what: str, value: Seconds) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not 0 <= seconds < float("inf"):
        raise ConfigurationError(f"{what} is {value!r}; give seconds, or a timedelta, not below zero")
    return seconds
