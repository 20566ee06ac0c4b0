"""Taking requests: each in a task of its own, as many at once as there are slots, acknowledged one by one."""

from __future__ import annotations

import asyncio
from typing import Final

from triumvir.broker import Consumer, Delivery
from triumvir.errors import Draining
from triumvir.runtime.crash import crash_point
from triumvir.runtime.gather import Gatherer
from triumvir.telemetry import events, metrics
from triumvir.telemetry.logs import get_logger
from triumvir_agent.early import InHand
from triumvir_agent.worker import FIRST_PAUSE, LONGEST_PAUSE, Worker

PATIENCE: Final = 0.75
"""Of the time for a drain: so much may pass until early acknowledged requests are given up; the rest is for leases."""
log = get_logger(__name__)


class Taking:
    """Feeds one agent's deliveries to its worker. The consumer's prefetch is the number of slots, less those of
    requests that were acknowledged early and still run: what came beyond them would wait here, where no other process
    could take it. ``patience``: seconds that a drain waits for these.
    """

    def __init__(self, consumer: Consumer, worker: Worker, slots: int, patience: float) -> None:
        self._consumer = consumer
        self._worker = worker
        self._runner = worker.runner
        self._slots = slots
        self._patience = patience
        self._running: set[asyncio.Task[None]] = set()
        self._early: dict[asyncio.Task[None] | None, Delivery] = {}
        self._freed = asyncio.Event()
        self._acks = Gatherer(self._acknowledge, slots, "acks")
        self._runner.changed = self._freed.set
        metrics.SLOTS_BUSY.follow(lambda: len(self._running) + self._runner.left_behind)

    async def step(self) -> bool:
        """Starts what there is room for; waits up to a second for it. With every slot taken by what was left behind
        it does not return, so that the watchdog ends the process: nothing else can.
        """
        while self._runner.left_behind >= self._slots:
            self._freed.clear()
            await self._freed.wait()
        await self._fit()
        try:
            async with asyncio.timeout(1.0):
                deliveries = await self._consumer.batch(await self._room())
        except TimeoutError:
            return True
        if not deliveries:
            await asyncio.sleep(0.05)
        for delivery in deliveries:
            task = asyncio.create_task(self._serve(delivery), name="request")
            self._running.add(task)
            task.add_done_callback(self._ended)
        return True

    async def _room(self) -> int:
        """How many requests may be started, once that is one at least."""
        while (room := self._slots - len(self._running) - self._runner.left_behind) < 1:
            self._freed.clear()
            await self._freed.wait()
        return room

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._freed.set()

    async def ready(self) -> str | None:
        """For /readyz: what keeps this agent from working, or None."""
        stuck = self._runner.left_behind
        return f"{stuck} calls went on when their time was over" if stuck >= self._slots else None

    @property
    def is_busy_early(self) -> bool:
        """Whether early acknowledged requests are in hand."""
        return bool(self._early)

    async def drain(self) -> None:
        """Waits until every request in hand is answered and acknowledged. Those acknowledged early are given up when
        their time is over: no other process is sent them before their deadline, or the next retry.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience
        while self._running and (left := until - loop.time()) > 0:
            await asyncio.wait(self._running, timeout=left)
        for task, delivery in tuple(self._early.items()):
            log.warning(events.REQUEST_LEFT, queue=delivery.queue, message_id=delivery.message_id)
            if task is not None:
                task.cancel()
        while self._running:
            await asyncio.wait(self._running)

    async def _fit(self, leaving: Delivery | None = None) -> None:
        await self._consumer.fit(max(0, self._slots - len(self._early)), leaving)

    async def _let_go(self, delivery: Delivery, hand: InHand) -> None:
        """First there is no room for another one, then it is acknowledged."""
        if hand.early:
            return
        crash_point("agent.early.before_ack")
        hand.early = True
        self._early[asyncio.current_task()] = delivery
        await self._fit(delivery)
        await self._consumer.settle([delivery])
        crash_point("agent.early.after_ack")

    async def _serve(self, delivery: Delivery) -> None:
        hand = InHand(lambda: self._let_go(delivery, hand))
        try:
            await self._settle(delivery, hand)
        finally:
            if self._early.pop(asyncio.current_task(), None) is not None:
                await self._fit()

    async def _settle(self, delivery: Delivery, hand: InHand) -> None:
        """Until it is settled: what fails here is the database or the broker, and both come back."""
        pause = FIRST_PAUSE
        while True:
            try:
                await self._worker.serve(delivery, hand)
                break
            except Draining:
                return
            except Exception as error:
                log.warning(
                    events.REQUEST_FAILED,
                    queue=delivery.queue,
                    message_id=delivery.message_id,
                    error=f"{type(error).__name__}: {error}",
                    exc_info=error if pause == FIRST_PAUSE else None,
                )
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE, pause * 2)
        if not hand.early:
            await self._acks.submit(delivery)
        crash_point("agent.after_ack")

    async def _acknowledge(self, deliveries: list[Delivery]) -> list[None]:
        """Requests whose replies were confirmed together are acknowledged together; none waits for another."""
        await self._consumer.settle(deliveries)
        await self._fit()
        return [None] * len(deliveries)
