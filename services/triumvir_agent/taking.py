"""Taking requests: each in a task of its own, as many at once as there are slots, acknowledged one by one."""

from __future__ import annotations

import asyncio

from triumvir.broker import Consumer, Delivery
from triumvir.errors import Draining
from triumvir.runtime.crash import crash_point
from triumvir.runtime.gather import Gatherer
from triumvir.telemetry import events, metrics
from triumvir.telemetry.logs import get_logger
from triumvir_agent.worker import FIRST_PAUSE, LONGEST_PAUSE, Worker

log = get_logger(__name__)


class Taking:
    """Feeds one agent's deliveries to its worker. The consumer's prefetch is the number of slots."""

    def __init__(self, consumer: Consumer, worker: Worker, slots: int) -> None:
        self._consumer = consumer
        self._worker = worker
        self._runner = worker.runner
        self._slots = slots
        self._running: set[asyncio.Task[None]] = set()
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

    async def drain(self) -> None:
        """Waits until every request in hand is answered and acknowledged."""
        while self._running:
            await asyncio.wait(self._running)

    async def _serve(self, delivery: Delivery) -> None:
        """Until it is settled: what fails here is the database or the broker, and both come back."""
        pause = FIRST_PAUSE
        while True:
            try:
                await self._worker.serve(delivery)
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
        await self._acks.submit(delivery)
        crash_point("agent.after_ack")

    async def _acknowledge(self, deliveries: list[Delivery]) -> list[None]:
        """Requests whose replies were confirmed together are acknowledged together; none waits for another."""
        await self._consumer.settle(deliveries)
        return [None] * len(deliveries)
