"""Orders for the fault tests: a seeded mix of good, slow, flaky, refused and cancelled ones, followed to their end."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from triumvir.client import Client, Order, Submission
from triumvir.contracts.messages import Status
from triumvir.errors import BrokerError

STEPS = ("reserve", "book", "charge")
DEDUPING = ("reserve", "charge")


@dataclass(frozen=True)
class Kind:
    """One sort of order; ``ends`` are the states it may end in."""

    name: str
    weight: int
    ask: Callable[[random.Random], dict[str, Any]]
    ends: tuple[str, ...]


def _transient(times: int) -> Callable[[random.Random], dict[str, Any]]:
    return lambda chance: {chance.choice(STEPS): {"fail": "transient", "times": times}}


KINDS = (
    Kind("good", 8, lambda chance: {}, ("processed",)),
    Kind("refused", 4, lambda chance: {chance.choice(STEPS): {"fail": "permanent"}}, ("compensated",)),
    Kind("flaky", 2, _transient(1), ("processed",)),
    Kind("reopened", 2, _transient(3), ("processed",)),
    Kind("hopeless", 1, _transient(1000), ("compensated",)),
    Kind("slow", 2, lambda chance: {chance.choice(STEPS): {"slow": 0.8}}, ("processed",)),
    Kind("unheard", 2, lambda chance: {chance.choice(DEDUPING): {"drop": 1}}, ("processed",)),
    Kind("cancelled", 2, lambda chance: {}, ("processed", "compensated", "cancelled")),
)
"""``slow`` is slower than a retry interval, ``reopened`` fails more often than one request may call."""


class Load:
    """Submits, cancels, and keeps everything the client is told."""

    def __init__(self, client: Client, seed: int) -> None:
        self._client = client
        self._chance = random.Random(seed)
        self._number = 0
        self.workflow = "trade"
        self.mix: Sequence[Kind] = KINDS
        self._following: set[asyncio.Task[None]] = set()
        self._collectors: list[asyncio.Task[None]] = []
        self.accepted: set[str] = set()
        self.kinds: dict[str, Kind] = {}
        self.received: defaultdict[str, list[Status]] = defaultdict(list)
        """Everything from the client's queue, as it came."""
        self.followed: defaultdict[str, list[Status]] = defaultdict(list)
        """What the client library makes of it."""

    async def start(self) -> None:
        self.collect(self._client)

    async def stop(self) -> None:
        for task in (*self._collectors, *self._following):
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)

    @property
    def open(self) -> int:
        """How many orders the client still waits for."""
        return len(self._following)

    @property
    def ended(self) -> int:
        """How many orders ended before the client's eyes."""
        return len(self.accepted) - self.open

    async def submit(self, count: int, *kinds: str) -> list[Order]:
        """Submit so many, of these kinds or of the whole mix; returns once each is confirmed. Cancels some."""
        chosen = [kind for kind in self.mix if not kinds or kind.name in kinds]
        mix = self._chance.choices(chosen, [kind.weight for kind in chosen], k=count)
        if not kinds and count >= len(self.mix):
            mix[: len(self.mix)] = self.mix
        submissions = [self._submission(kind) for kind in mix]
        orders = [order async for order in self._submitted(submissions)]
        for order, kind in zip(orders, mix, strict=True):
            self.kinds[order.key] = kind
            if kind.name == "cancelled":
                await order.cancel("changed my mind")
        return orders

    async def submit_one(self, order_id: str, ask: dict[str, Any] | None = None) -> Order:
        """One order that behaves as ``ask`` says."""
        (order,) = [
            o async for o in self._submitted([Submission(self.workflow, {"ask": ask or {}}, order_id)])
        ]
        return order

    def _submission(self, kind: Kind) -> Submission:
        self._number += 1
        payload = {"ask": kind.ask(self._chance), "kind": kind.name}
        return Submission(
            self.workflow, payload, f"{kind.name}-{self._number}", progress=self._number % 2 == 0
        )

    async def _submitted(self, submissions: list[Submission]) -> AsyncIterator[Order]:
        async for submitted in self._client.submit_many(submissions):
            if submitted.order is None:
                raise submitted.error or BrokerError("not sent")
            self.accepted.add(submitted.order.key)
            self._follow(submitted.order)
            yield submitted.order

    def _follow(self, order: Order) -> None:
        task = asyncio.create_task(self._watch(order), name=f"follow {order.key}")
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _watch(self, order: Order) -> None:
        async for status in order.statuses():
            self.followed[order.key].append(status)

    def collect(self, client: Client) -> None:
        """Keep everything that this client is told."""
        self._collectors.append(asyncio.create_task(self._collect(client), name=f"collect {client.name}"))

    async def _collect(self, client: Client) -> None:
        async for status in client.statuses():
            self.received[f"{client.name}/{status.order_id}"].append(status)
