"""Taking requests: each in a task of its own, as many at once as there are slots, acknowledged one by one."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from triumvir.broker import Consumer, Delivery
from triumvir.errors import Draining
from triumvir.runtime.crash import crash_point
from triumvir.runtime.gather import Gatherer
from triumvir.telemetry import events, metrics
from triumvir.telemetry.logs import get_logger
from triumvir_agent.worker import FIRST_PAUSE, LONGEST_PAUSE, Worker

log = get_logger(__name__)


def open_threads(count: int) -> None:
    """A thread for every slot: by default there are a few for each core, and plain functions that wait for a
    remote service would spend their time left in the queue for one.
    """
    threads = ThreadPoolExecutor(count, thread_name_prefix="operation")
    asyncio.get_running_loop().set_default_executor(threads)


class Taking:
    """Feeds one agent's deliveries to its worker. The consumer's prefetch is the number of slots."""

    def __init__(self, consumer: Consumer, worker: Worker, slots: int) -> None:
        self._consumer = consumer
        self._worker = worker
        self._slots = slots
        self._running: set[asyncio.Task[None]] = set()
        self._acks = Gatherer(self._acknowledge, slots, "acks")
        metrics.SLOTS_BUSY.follow(lambda: len(self._running))

    async def step(self) -> bool:
        """Starts what is there; waits up to a second for it."""
        try:
            async with asyncio.timeout(1.0):
                deliveries = await self._consumer.batch(self._slots)
        except TimeoutError:
            return True
        if not deliveries:
            await asyncio.sleep(0.05)
        for delivery in deliveries:
            task = asyncio.create_task(self._serve(delivery), name="request")
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return True

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
