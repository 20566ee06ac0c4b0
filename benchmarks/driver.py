"""The client of a measurement: submits orders and notes when each is told to be completed.

It is the same for the suite and for the ceiling, and its cost is nobody's: only what it drives is counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from triumvir.broker import Connection, Consumer, Outcome, OutMessage, Publisher

Submission = Callable[[str], OutMessage]
"""Makes the message that submits the order of that id."""

BATCH: Final = 100
PREFETCH: Final = 1000


@dataclass(slots=True)
class Timing:
    """What the client saw. ``latencies``: seconds from submission to ``completed``, one per order."""

    orders: int
    seconds: float
    latencies: list[float] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        return self.orders / self.seconds


class Driver:
    """Drives one system. Statuses are JSON objects with ``order_id`` and ``status``."""

    def __init__(
        self, publishing: Connection, consuming: Connection, queue: str, submission: Submission
    ) -> None:
        self._publisher = Publisher(publishing, timeout=30.0)
        self._consumer = Consumer(consuming, queue, PREFETCH)
        self._submission = submission
        self._submitted: dict[str, float] = {}
        self._completed: dict[str, float] = {}
        self._expected = 0
        self._all_completed = asyncio.Event()
        self._taking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Subscribes to the statuses."""
        await self._consumer.start()
        self._taking = asyncio.create_task(self._take())

    async def close(self) -> None:
        """Stops taking; the connections stay their owner's."""
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.gather(self._taking, return_exceptions=True)
        await self._consumer.close()
        await self._publisher.close()

    async def saturated(self, order_ids: Sequence[str], *, within: float) -> Timing:
        """All orders as fast as the broker takes them; returns when the last one is completed."""
        began = self._expect(len(order_ids))
        for start in range(0, len(order_ids), BATCH):
            await self._submit(order_ids[start : start + BATCH], time.monotonic())
        return await self._finished(began, within)

    async def submit(self, order_ids: Sequence[str]) -> None:
        """All orders as fast as the broker takes them, without waiting for any end."""
        self._expect(len(order_ids))
        for start in range(0, len(order_ids), BATCH):
            await self._submit(order_ids[start : start + BATCH], time.monotonic())

    @property
    def completed(self) -> int:
        """How many of the orders submitted last are completed."""
        return len(self._completed)

    async def light(self, order_ids: Sequence[str], rate: float, *, within: float) -> Timing:
        """``rate`` orders a second, each by itself and at its time, whatever became of the others."""
        began = self._expect(len(order_ids))
        async with asyncio.TaskGroup() as submits:
            for place, order_id in enumerate(order_ids):
                due = began + place / rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                submits.create_task(self._submit([order_id], due))
        return await self._finished(began, within)

    def _expect(self, orders: int) -> float:
        self._submitted, self._completed = {}, {}
        self._expected = orders
        self._all_completed.clear()
        return time.monotonic()

    async def _submit(self, order_ids: Sequence[str], at: float) -> None:
        self._submitted.update(dict.fromkeys(order_ids, at))
        outcomes = await self._publisher.publish([self._submission(order_id) for order_id in order_ids])
        if not all(outcome is Outcome.CONFIRMED for outcome in outcomes):
            raise RuntimeError(f"submissions were not confirmed: {set(outcomes)}")

    async def _finished(self, began: float, within: float) -> Timing:
        try:
            async with asyncio.timeout(within):
                await self._all_completed.wait()
        except TimeoutError:
            raise RuntimeError(
                f"{len(self._completed)} of {self._expected} orders were completed in {within:.0f} s"
            ) from None
        seconds = max(self._completed.values()) - began
        latencies = [at - self._submitted[order_id] for order_id, at in self._completed.items()]
        return Timing(self._expected, seconds, latencies)

    async def _take(self) -> None:
        while deliveries := await self._consumer.batch(PREFETCH):
            now = time.monotonic()
            for delivery in deliveries:
                status = orjson.loads(delivery.body)
                if status["status"] == "completed":
                    self._completed.setdefault(status["order_id"], now)
            await self._consumer.settle(deliveries)
            if len(self._completed) >= self._expected:
                self._all_completed.set()
