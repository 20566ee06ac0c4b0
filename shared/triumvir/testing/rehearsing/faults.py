"""What goes wrong in a rehearsal: where it strikes, how often, and what it does there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from triumvir.contracts.names import Direction
from triumvir.errors import OperationError

Point = Literal["request", "before_call", "after_call", "before_record", "before_reply", "reply"]
"""Where a fault strikes, in the order in which a request comes by."""
Kind = Literal["fail", "die", "pause", "delay", "double", "drop", "orphan", "cancel"]


@dataclass(slots=True)
class Fault:
    """``left``: how often it will still strike, None for every time; ``skip``: how many it lets pass first; ``error``
    makes what a ``fail`` raises.
    """

    kind: Kind
    step: str
    direction: Direction
    point: Point
    left: int | None = 1
    skip: int = 0
    seconds: float = 0.0
    error: Callable[[], OperationError] | None = None
    struck: int = 0

    def __str__(self) -> str:
        undo = "undo of " if self.direction == "undo" else ""
        return f"{self.kind} of {undo}{self.step}, {self.point.replace('_', ' ')}"


class Faults:
    """The faults of one run."""

    def __init__(self, planned: Sequence[Fault]) -> None:
        self._faults = [replace(fault) for fault in planned]

    def strike(self, point: Point, step: str, direction: Direction) -> Iterator[Fault]:
        """Those that strike here and now. One that is not asked for, because another one ended the call before, is
        kept for the next time.
        """
        for fault in self._faults:
            if (fault.point, fault.step, fault.direction) == (point, step, direction) and fault.left != 0:
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.left = None if fault.left is None else fault.left - 1
                fault.struck += 1
                yield fault

    @property
    def unstruck(self) -> tuple[str, ...]:
        """Those that never struck."""
        return tuple(str(fault) for fault in self._faults if not fault.struck)
