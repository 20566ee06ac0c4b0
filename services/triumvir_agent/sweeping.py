"""Replies that died with whoever called: their rows are looked for, published and marked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from triumvir.broker import Outcome as Published
from triumvir.broker import OutMessage
from triumvir.runtime.crash import crash_point
from triumvir.runtime.gather import Gatherer
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger
from triumvir_agent import replies
from triumvir_agent.early import DueReply
from triumvir_agent.inbox import Inbox

WATCHFUL_LEASES: Final = 3
"""So long after its start a process looks often: its predecessor may have left something."""
SELDOM_LEASES: Final = 10
"""So often, in leases, it looks while it has acknowledged nothing early itself."""
MOST: Final = 50
log = get_logger(__name__)


class Sweep:
    """Of every agent's rows, whichever process wrote them. Two that sweep take different rows, for the time of a lease;
    a reply that goes out twice is known by its fence.
    """

    def __init__(
        self,
        inbox: Inbox,
        publishes: Gatherer[OutMessage, Published],
        is_busy: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``is_busy``: whether this process has early acknowledged requests in hand."""
        self._inbox = inbox
        self._publishes = publishes
        self._is_busy = is_busy
        self._clock = clock
        self._lease = inbox.early.lease.total_seconds()
        self._started = self._last = clock()

    async def step(self) -> bool:
        """Once a lease while there may be something, seldom otherwise: idle processes leave the database alone."""
        now = self._clock()
        watchful = now - self._started < WATCHFUL_LEASES * self._lease
        if not (watchful or self._is_busy() or now - self._last >= SELDOM_LEASES * self._lease):
            return False
        self._last = now
        due = await self._inbox.take_due(MOST)
        for reply in due:
            await self._send(reply)
        return len(due) == MOST

    async def _send(self, due: DueReply) -> None:
        """One that is not confirmed is due again when its lease is over."""
        if due.outcome is not None:
            message = replies.reply(due.request, due.outcome, due.calls, due.trace)
            published = await self._publishes.submit(message)
            log.info(events.REPLY_SWEPT, message_id=message.message_id, outcome=published.value)
            if published is not Published.CONFIRMED:
                return
            crash_point("agent.sweep.after_publish")
        await self._inbox.mark_replied(due.request)
