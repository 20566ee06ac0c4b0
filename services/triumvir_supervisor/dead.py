"""The ``.dead`` queues: copies of rows that are known are acknowledged, what the broker set aside is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from triumvir.broker import (
    ORDERS,
    REPLIES,
    Consumer,
    Delivery,
    Topology,
    agent_queue,
    agent_topology,
    dead_queue,
    queue_of_dead_letters,
)
from triumvir.errors import DefinitionError
from triumvir.runtime.broker_link import BrokerLink
from triumvir.runtime.chassis import Chassis
from triumvir.runtime.intake import Intake
from triumvir.runtime.letters import letter_of
from triumvir.runtime.loops import Loop
from triumvir.runtime.outgoing import DeadLetter
from triumvir.runtime.undeliverable import Undeliverable
from triumvir.store.session import Session, Store
from triumvir.store.statements import statement
from triumvir.workflow import Stage, Wait, Workflow

_PREFETCH: Final = 50
_SILENCE_SECONDS: Final = 0.5


class DeadQueues:
    """Consumes the ``.dead`` queue of the door, of the replies, and of every agent that a workflow names."""

    def __init__(
        self, chassis: Chassis, broker: BrokerLink, store: Store, undeliverable: Undeliverable
    ) -> None:
        self._chassis = chassis
        self._broker = broker
        self._store = store
        self._session = store.session("dead queues")
        self._undeliverable = undeliverable
        self._watched: set[str] = set()

    async def watch(self) -> None:
        """Subscribes to those that are not consumed yet."""
        for queue, topology in (await self._queues()).items():
            if queue not in self._watched:
                await self._watch(queue, topology)

    async def drain(self) -> None:
        """Takes what is in them now, for a supervisor that makes one pass."""
        queues = await self._queues()
        await asyncio.gather(*(self._drain(queue, topology) for queue, topology in queues.items()))

    async def _queues(self) -> dict[str, Topology | None]:
        """What is watched over, with what has to be declared for it."""
        quorum = self._chassis.settings.quorum_queues
        agents = {
            agent_queue(name): agent_topology(name, quorum=quorum) for name in await _agents(self._session)
        }
        return {ORDERS: None, REPLIES: None, **agents}

    async def _watch(self, queue: str, topology: Topology | None) -> None:
        consumer = await self._broker.consume(dead_queue(queue), _PREFETCH, topology=topology)
        marks = self._store.session(f"marks {queue}")
        intake = Intake(consumer, self.handle, self._undeliverable.quarantine, marks, _PREFETCH)
        poll = self._chassis.settings.poll_interval
        self._chassis.add_loop(Loop(f"dead letters {queue}", intake.step, poll))
        self._watched.add(queue)

    async def _drain(self, queue: str, topology: Topology | None) -> None:
        consumer = await self._broker.consume(dead_queue(queue), _PREFETCH, topology=topology)
        while deliveries := await _next(consumer):
            await self.handle(deliveries)
            await consumer.settle(deliveries)

    async def handle(self, deliveries: Sequence[Delivery]) -> None:
        """Returns once each of them is known to the store."""
        ids = [_id(delivery.message_id) for delivery in deliveries]
        async with self._session.connection() as connection:
            rows = await statement("known_dead_letters").rows(
                connection, ids=[known_id for known_id in ids if known_id is not None]
            )
        known = {row["id"] for row in rows}
        unknown = [
            delivery for delivery, letter_id in zip(deliveries, ids, strict=True) if letter_id not in known
        ]
        if unknown:
            await self._undeliverable.keep([_letter(delivery) for delivery in unknown])


async def _next(consumer: Consumer) -> list[Delivery]:
    """What is there; nothing once the queue has been silent for a while."""
    try:
        async with asyncio.timeout(_SILENCE_SECONDS):
            return await consumer.batch(_PREFETCH)
    except TimeoutError:
        return []


async def _agents(session: Session) -> set[str]:
    """Every agent that a definition names; one that this release cannot read names none."""
    async with session.connection() as connection:
        rows = await statement("all_definitions").rows(connection)
    return {step.agent for row in rows for step in _steps(row["definition"]) if not isinstance(step, Wait)}


def _steps(definition: str) -> Sequence[Stage]:
    try:
        return Workflow.from_json(definition).steps
    except DefinitionError:
        return ()


def _letter(delivery: Delivery) -> DeadLetter:
    reason = str(delivery.headers.get("x-first-death-reason", "unknown"))
    origin = str(delivery.headers.get("x-first-death-queue", queue_of_dead_letters(delivery.queue)))
    letter = letter_of(delivery, "dead_lettered_by_broker", f"the broker set it aside: {reason}")
    return replace(letter, queue=origin, client=delivery.user_id if origin == ORDERS else None)


def _id(text: str | None) -> UUID | None:
    try:
        return UUID(text or "")
    except ValueError:
        return None
