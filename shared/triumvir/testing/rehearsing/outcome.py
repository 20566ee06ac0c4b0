"""What came of a rehearsal, to be asserted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from triumvir.contracts.messages import Alert, Status
from triumvir.contracts.names import Direction
from triumvir.lifecycle import LogRow, State, StepRecord


@dataclass(frozen=True, slots=True)
class RehearsedCall:
    """One call that an agent made. Virtual time begins with the order's acceptance."""

    step: str
    """The name of the step."""
    operation: str
    """What was called: the operation, or the undo."""
    direction: Direction
    """``do`` or ``undo``."""
    attempt: int
    """Counts the attempts of the order, from 1."""
    call: int
    """Counts the calls of one request in one process, from 1."""
    idempotency_key: str
    """What the operation was given to hand on."""
    fence: int
    """Rises with every attempt."""
    at: timedelta
    """When it began, in virtual time."""
    ran: bool = False
    """Whether the author's function was run; False if an injected fault came before it."""
    after: int = 0
    """How many moves stood in the order's history before it."""
    ended: str = "cut off"
    """``returned``, or ``raised …`` with the error, or ``cut off``: by its time, or with its process."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the order ended, and how it came to that. ``print(outcome)`` tells the story."""

    state: State
    """``processed``, ``compensated``, ``cancelled``; ``error`` and ``compensation_failed`` rest for an operator;
    a live state (``pending``, ...) if it is :attr:`stuck`."""
    result: Any
    """What the last step returned, as a JSON value; None unless the order is ``processed``."""
    steps: Mapping[str, StepRecord]
    """By step name, how far each came: ``state``, ``effect``, ``undo_state``, ``error``, ... Those never reached are
    not in it."""
    statuses: tuple[Status, ...]
    """What the client was told, in order."""
    alerts: tuple[Alert, ...]
    """What the operators were told, in order."""
    calls: tuple[RehearsedCall, ...]
    """Every call of every agent, in order."""
    history: tuple[LogRow, ...]
    """Every move of the order with its reason, as ``triumvir orders show`` prints it."""
    elapsed: timedelta
    """Virtual time from the acceptance to the last move of the order."""
    stuck: str | None
    """Why the order came to no end: what holds it, or that the time of the rehearsal was over. None if it did."""
    unstruck: tuple[str, ...]
    """Injected faults that never came to bear: a test that relies on them proves nothing."""

    @property
    def told(self) -> list[str]:
        """The names of the statuses, in order."""
        return [status.status for status in self.statuses]

    def calls_of(self, step: str, direction: Direction = "do") -> list[RehearsedCall]:
        """The calls for one step and direction, in order."""
        return [call for call in self.calls if (call.step, call.direction) == (step, direction)]

    def __str__(self) -> str:
        began = self.history[0].at
        told = [(row.n, 0, row.at - began, f"[{row.after}] {row.why}") for row in self.history]
        for place, call in enumerate(self.calls, start=1):
            text = f"    {call.operation} called, {call.idempotency_key}: {call.ended}"
            told.append((call.after, place, call.at, text))
        lines = [f"{at.total_seconds():10.3f} s  {line}" for _, _, at, line in sorted(told)]
        ends = [f"stuck: {self.stuck}"] if self.stuck else []
        return "\n".join([*lines, *ends, *(f"never struck: {fault}" for fault in self.unstruck)])
