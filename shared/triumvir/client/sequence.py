"""The statuses of one order, brought into order. Pure: time comes in as an argument."""

from __future__ import annotations

from typing import Final

from triumvir.contracts.messages import Status

HOLD_BACK: Final = 2.0
"""Seconds that a later status waits for a missing one: two processes may publish 3 and 4 in either order."""


class Sequence:
    """Takes statuses as they arrive and gives them out by number, each once.

    Behind a gap they are held back; :meth:`question` says when to ask for what is missing, once per gap. All
    times are seconds of one monotonic clock.
    """

    def __init__(self) -> None:
        self._next = 1
        self._held: dict[int, Status] = {}
        self._gap_due: float | None = None
        self._asked_for = 0
        self._ask_at: float | None = None

    @property
    def next(self) -> int:
        """The number that is missing, or will come next."""
        return self._next

    @property
    def held(self) -> tuple[Status, ...]:
        """What waits behind a gap, by number."""
        return tuple(self._held[number] for number in sorted(self._held))

    @property
    def question_due(self) -> float | None:
        """When :meth:`question` will have something to ask; None if nothing is amiss."""
        return min((due for due in (self._gap_due, self._ask_at) if due is not None), default=None)

    def add(self, status: Status, now: float) -> list[Status]:
        """What can be given out now that this one (number 1 or more) is here; nothing for a known one."""
        if status.sequence < self._next or status.sequence in self._held:
            return []
        self._held[status.sequence] = status
        ready = []
        while self._next in self._held:
            ready.append(self._held.pop(self._next))
            self._next += 1
        if not self._held:
            self._gap_due = None
        elif self._next != self._asked_for and (ready or self._gap_due is None):
            self._gap_due = now + HOLD_BACK
        return ready

    def question(self, now: float) -> int | None:
        """The number from which to ask for a replay, or None. Asking counts as done: it is not said twice."""
        due = self.question_due
        if due is None or now < due:
            return None
        self._gap_due = self._ask_at = None
        self._asked_for = self._next
        return self._next

    def ask_at(self, when: float) -> None:
        """Have :meth:`question` ask (again) at ``when``, gap or not."""
        self._ask_at = when

    def release(self) -> list[Status]:
        """Give out what is held although something is missing: nobody has it any more."""
        released = list(self.held)
        if released:
            self._next = released[-1].sequence + 1
        self._held.clear()
        self._gap_due = None
        return released
