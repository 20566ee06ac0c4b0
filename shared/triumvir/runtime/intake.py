"""Taking deliveries: in batches, settled after the commit; what came back before is handled alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

from triumvir.broker import ORDERS, Consumer, Delivery
from triumvir.runtime.crash import CrashPoint, crash_point
from triumvir.runtime.letters import delivery_hash, letter_of
from triumvir.runtime.outgoing import DeadLetter
from triumvir.store.session import Session
from triumvir.store.statements import statement
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

MOST_MARKS: Final = 3
_WAIT_SECONDS: Final = 1.0

Handle = Callable[[Sequence[Delivery]], Awaitable[None]]
Quarantine = Callable[[DeadLetter], Awaitable[None]]
log = get_logger(__name__)


class Intake:
    """Feeds one consumer's deliveries to ``handle``, which returns once they are committed.

    If ``handle`` raises, nothing is settled and the same deliveries are handled again after a pause. A
    delivery that came back carries a mark in the database while it is handled: one that ends the process
    time and again is put into quarantine unhandled, and its neighbours go on. The mark is made once, however
    often the database fails under the handler: an outage makes no message poison.
    """

    def __init__(
        self,
        consumer: Consumer,
        handle: Handle,
        quarantine: Quarantine,
        session: Session,
        limit: int,
        after_ack: CrashPoint | None = None,
    ) -> None:
        self._consumer = consumer
        self._handle = handle
        self._quarantine = quarantine
        self._session = session
        self._limit = limit
        self._after_ack = after_ack
        self._in_hand: list[Delivery] = []
        self._marked: Delivery | None = None
        self._marks = 0

    async def step(self) -> bool:
        """Handles what is there. Waits up to a second for it, so that idling counts as progress."""
        if not self._in_hand:
            self._in_hand = await self._take()
        while self._in_hand:
            group = _first_group(self._in_hand)
            if group[0].redelivered:
                await self._handle_alone(group[0])
            else:
                await self._handle(group)
            await self._consumer.settle(group)
            if self._after_ack is not None:
                crash_point(self._after_ack)
            del self._in_hand[: len(group)]
        return True

    async def _take(self) -> list[Delivery]:
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                deliveries = await self._consumer.batch(self._limit)
        except TimeoutError:
            return []
        if not deliveries:
            await asyncio.sleep(timedelta(milliseconds=50).total_seconds())
            return []
        return deliveries

    async def _handle_alone(self, delivery: Delivery) -> None:
        key = {"queue": delivery.queue, "hash": delivery_hash(delivery)}
        if self._marked is not delivery:
            async with self._session.connection() as connection:
                self._marks = await statement("mark_delivery").value(connection, **key)
            self._marked = delivery
        if self._marks >= MOST_MARKS:
            log.error(events.MESSAGE_QUARANTINED, queue=delivery.queue, message_id=delivery.message_id)
            detail = f"came back {self._marks} times without being settled"
            client = delivery.user_id if delivery.queue == ORDERS else None
            await self._quarantine(letter_of(delivery, "quarantined", detail, client=client))
        else:
            await self._handle([delivery])
        async with self._session.connection() as connection:
            await statement("unmark_delivery").rows(connection, **key)


def _first_group(deliveries: Sequence[Delivery]) -> list[Delivery]:
    """The leading deliveries that are new, or the first one alone if it came back."""
    if deliveries[0].redelivered:
        return [deliveries[0]]
    returned = next((n for n, delivery in enumerate(deliveries) if delivery.redelivered), len(deliveries))
    return list(deliveries[:returned])
