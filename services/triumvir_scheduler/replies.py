"""Replies of agents: decoded, folded into their orders, committed, and only then acknowledged."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from triumvir.broker import Delivery
from triumvir.contracts.codec import decode
from triumvir.contracts.messages import StepFailed, StepProgressed, StepSucceeded
from triumvir.contracts.names import order_key
from triumvir.errors import ContractError
from triumvir.lifecycle import Event, Replied
from triumvir.runtime.batches import FEW, run_batch
from triumvir.runtime.letters import letter_of, refused
from triumvir.runtime.outgoing import DeadLetter
from triumvir.runtime.undeliverable import Undeliverable
from triumvir.store import orders
from triumvir.telemetry import tracing
from triumvir_scheduler.stage import Stage


@dataclass(frozen=True, slots=True)
class Reply:
    """One delivery that could be read."""

    delivery: Delivery
    event: Replied

    @property
    def no(self) -> int:
        return self.event.reply.order_no


class Replies:
    """Handles batches of ``scheduler.replies``. ``answered`` is called after each: there may be room now."""

    def __init__(self, stage: Stage, undeliverable: Undeliverable, answered: Callable[[], None]) -> None:
        self._stage = stage
        self._undeliverable = undeliverable
        self._answered = answered

    async def handle(self, deliveries: Sequence[Delivery]) -> None:
        """Returns once every delivery is committed: applied, or kept as a dead letter."""
        began = time.time_ns()
        readable: list[Reply] = []
        unreadable: list[DeadLetter] = []
        for delivery in deliveries:
            try:
                readable.append(_read(delivery))
            except ContractError as error:
                unreadable.append(refused(delivery, error))
        if unreadable:
            await self._undeliverable.keep(unreadable)
        if readable:
            await run_batch("replies", readable, self._apply, self._set_aside)
            self._answered()
            _trace(readable, began)

    async def _apply(self, replies: Sequence[Reply]) -> None:
        await self._stage.fetch({reply.no for reply in replies})
        events: dict[int, Event] = {reply.no: reply.event for reply in replies}
        is_plain = len(replies) == len(events) <= FEW
        if not (is_plain and await self._stage.at_once("reply", events, continuing=True)):
            await self._apply_locked(replies)

    async def _apply_locked(self, replies: Sequence[Reply]) -> None:
        outbox_id: int | None = None
        async with self._stage.work("reply") as work:
            locked = await orders.lock(work.connection, {reply.no for reply in replies})
            events: dict[int, list[Event]] = {}
            for reply in replies:
                if reply.no in locked:
                    events.setdefault(reply.no, []).append(reply.event)
            orphans = [_orphan(reply) for reply in replies if reply.no not in locked]
            if orphans:
                outbox_id = await self._undeliverable.insert(work.connection, orphans)
            await self._stage.apply(work, events, continuing=True, locked=locked)
        if outbox_id is not None:
            await self._undeliverable.tell(orphans, outbox_id)

    async def _set_aside(self, reply: Reply, error: Exception) -> None:
        letter = letter_of(reply.delivery, "refused_by_store", f"{type(error).__name__}: {error}")
        await self._undeliverable.keep([letter])


def _read(delivery: Delivery) -> Reply:
    message = decode(delivery.type, delivery.body)
    if not isinstance(message, StepSucceeded | StepFailed | StepProgressed):
        raise ContractError(
            "unexpected_type", "type", f"{delivery.type!r} is no reply", "send step.succeeded.v1"
        )
    return Reply(delivery, Replied(message))


def _trace(replies: Sequence[Reply], began: int) -> None:
    """The spans of a batch, one for each reply; ``began`` in nanoseconds since the epoch."""
    for reply in replies:
        delivery, message = reply.delivery, reply.event.reply
        trace = tracing.adopt(delivery.headers)
        if trace is not None:
            key = order_key(message.client, message.order_id)
            tracing.process(delivery.queue, delivery.message_id or "", key, trace, start=began).end()


def _orphan(reply: Reply) -> DeadLetter:
    return letter_of(reply.delivery, "unknown_order", f"there is no order {reply.no}")
