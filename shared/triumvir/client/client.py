"""The client: submits orders, and follows them on its private status queue."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final, Self

from pydantic import BaseModel

from triumvir.client.desk import Desk
from triumvir.client.order import Order
from triumvir.client.outgoing import Letter
from triumvir.client.registry import Registry
from triumvir.client.submission import MAX_BYTES, MAX_DEPTH, Submission
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import Status
from triumvir.errors import BrokerError, ContractError, TriumvirError

BATCH: Final = 200
BATCHES_IN_FLIGHT: Final = 4


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of one of many submissions: ``order``, or the ``error`` that kept it from being sent."""

    submission: Submission
    order: Order | None = None
    error: TriumvirError | None = None


class Client:
    """A client of Triumvir, named by its broker user: ``amqp://shop-a:password@host:5672/vhost``.

    Use it as ``async with Client(url) as client``; entering raises :class:`~triumvir.errors.BrokerError` if it
    cannot connect within ``timeout`` seconds. Statuses come by the queue of that client; several processes of one
    client must not share it, so each gets an ``instance`` (made by ``triumvir clients add``). The queue is first
    read when a status is waited for. Outages of the broker are waited out: nothing is lost by them.

    ``max_payload_bytes`` and ``max_json_depth`` are to be those of the submitter, so that what it would refuse is
    refused here.
    """

    def __init__(
        self,
        url: str,
        *,
        instance: str | None = None,
        timeout: float = 10.0,
        max_payload_bytes: int = MAX_BYTES,
        max_json_depth: int = MAX_DEPTH,
    ) -> None:
        self._limits = (max_payload_bytes, max_json_depth)
        self._registry = Registry()
        self._desk = Desk(url, instance, timeout, self._registry)

    async def __aenter__(self) -> Self:
        await self._desk.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._desk.close()

    @property
    def name(self) -> str:
        """The client's name: its broker user. Raises :class:`~triumvir.errors.BrokerError` unless open."""
        return self._desk.name

    async def submit(
        self,
        workflow: str,
        payload: Mapping[str, Any] | BaseModel | JsonText,
        *,
        order_id: str,
        version: int | None = None,
        priority: int = 0,
        not_before: datetime | None = None,
        progress: bool = False,
    ) -> Order:
        """Submit one order; returns once the broker has it. :class:`triumvir.Submission` says what the parts mean.

        Raises :class:`~triumvir.errors.ContractError` if the submitter would refuse it, with the field and the
        fix, and :class:`~triumvir.errors.BrokerError` if it could not be sent. Submitting an equal order again is
        safe: there is one order for an id.
        """
        submission = Submission(workflow, payload, order_id, version, priority, not_before, progress)
        (submitted,) = await self._submit([submission])
        if submitted.order is None:
            raise submitted.error or BrokerError("not sent")
        return submitted.order

    async def submit_many(self, submissions: Iterable[Submission]) -> AsyncIterator[Submitted]:
        """Submit many, with the confirms of several batches in flight; tells of each, in order.

        One that is wrong or cannot be sent is told with its error; the others go on.
        """
        under_way: deque[asyncio.Task[list[Submitted]]] = deque()
        try:
            for batch in _batches(submissions):
                under_way.append(asyncio.create_task(self._submit(batch)))
                if len(under_way) == BATCHES_IN_FLIGHT:
                    for submitted in await under_way.popleft():
                        yield submitted
            while under_way:
                for submitted in await under_way.popleft():
                    yield submitted
        finally:
            for task in under_way:
                task.cancel()

    def order(self, order_id: str) -> Order:
        """An order that was submitted before, here or elsewhere; it is asked for when it is first watched."""
        return self._registry.attached(self._desk, order_id)

    async def statuses(self) -> AsyncIterator[Status]:
        """Every status that arrives in this client's queue from now on, of all orders, as it comes.

        They may be doubled or out of order: :meth:`triumvir.Order.statuses` puts those of one order right. Raises
        :class:`~triumvir.errors.BrokerError` when the client is closed, and if too many are left unread.
        """
        feed = self._registry.open_feed()
        try:
            await self._desk.follow()
            while True:
                yield await feed.next()
        finally:
            self._registry.close_feed(feed)

    async def _submit(self, batch: list[Submission]) -> list[Submitted]:
        told: list[Submitted | None] = [None] * len(batch)
        ready: list[tuple[int, Order, Letter]] = []
        for index, submission in enumerate(batch):
            try:
                order, letter = self._prepare(submission)
                ready.append((index, order, letter))
            except ContractError as error:
                told[index] = Submitted(submission, error=error)
        faults = await self._desk.deliver([letter for _, _, letter in ready])
        for (index, order, _), fault in zip(ready, faults, strict=True):
            told[index] = Submitted(batch[index], error=fault) if fault else Submitted(batch[index], order)
        return [submitted for submitted in told if submitted is not None]

    def _prepare(self, submission: Submission) -> tuple[Order, Letter]:
        sender = self._desk.sender
        message, body = submission.body(*self._limits)
        return self._registry.submitted(self._desk, message), sender.submission(message, body)


def _batches(submissions: Iterable[Submission]) -> Iterator[list[Submission]]:
    remaining = iter(submissions)
    while batch := list(islice(remaining, BATCH)):
        yield batch
