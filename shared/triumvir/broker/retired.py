"""Subscriptions that take nothing more, while what they delivered is still in hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from triumvir.broker.messages import Delivery
from triumvir.broker.session import Session

GROWN_EVERY: Final = 1.0
"""Seconds between two subscriptions that a few places more would be worth, at least."""


class Retired:
    """Sessions that were cancelled with deliveries in hand. Each lives until its last one is settled."""

    def __init__(self) -> None:
        self._sessions: list[Session] = []

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._sessions))

    def add(self, session: Session) -> None:
        """It was just cancelled."""
        self._sessions.append(session)

    def held(self, leaving: Delivery | None = None) -> int:
        """Deliveries the broker waits for on them; ``leaving`` is about to be acknowledged and does not count."""
        alive = [session for session in self._sessions if session.is_alive]
        held = sum(session.unsettled for session in alive)
        return held - (leaving is not None and leaving.channel in alive)

    async def close_empty(self) -> None:
        """Closes the channels of those that have nothing in hand any more, or were lost."""
        for session in self:
            if not session.is_alive or not session.unsettled:
                self._sessions.remove(session)
                session.end()
                await session.close()


def is_worth_it(spare: int, prefetch: int, capacity: int, since: float) -> bool:
    """Whether to subscribe anew for so many places more, ``since`` seconds after the last time: at once if nothing can
    come, or half of what there could be; a few of them once in a while. Less than none always: too much would come.

    >>> is_worth_it(0, 8, 8, 60.0), is_worth_it(-1, 8, 7, 0.0)
    (False, True)
    >>> is_worth_it(1, 0, 8, 0.0), is_worth_it(4, 4, 8, 0.0), is_worth_it(1, 7, 8, 0.5), is_worth_it(1, 7, 8, 1.0)
    (True, True, False, True)
    """
    if spare <= 0:
        return spare < 0
    return not prefetch or 2 * spare >= capacity or since >= GROWN_EVERY
