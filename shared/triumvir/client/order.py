"""An order as its client holds it: its statuses in order, its result, its cancel and its signals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Final, Protocol

from triumvir.client.outcome import ANSWERS, ENDS, REFUSALS, RESTS, result_of
from triumvir.client.sequence import Sequence
from triumvir.contracts.messages import Status
from triumvir.contracts.names import is_command_id, order_key
from triumvir.errors import BrokerError
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

ASK_AGAIN: Final = 5.0
"""Seconds after which a question that could not be sent is sent again."""

_log = get_logger(__name__)


class Line(Protocol):
    """What an order needs of its client: who it is, and how to ask."""

    @property
    def name(self) -> str: ...

    async def follow(self) -> None: ...
    async def query(self, order_id: str, from_sequence: int) -> None: ...
    async def cancel(self, order_id: str, reason: str | None) -> None: ...
    async def signal(self, order_id: str, name: str, data: Any) -> None: ...


class Order:
    """An order as its client sees it. Made by :meth:`triumvir.Client.submit` and :meth:`triumvir.Client.order`.

    Any number of tasks may watch it. An order that nobody holds is forgotten by its client;
    :meth:`triumvir.Client.order` gets it back.
    """

    def __init__(
        self,
        line: Line,
        order_id: str,
        *,
        fingerprint: bytes | None = None,
        refused_at: datetime | None = None,
    ) -> None:
        self.order_id = order_id
        """The id that its client chose; unique for that client."""
        self.key = order_key(line.name, order_id)
        """``client/order_id``, as operators and agents see it."""
        self.fingerprint = fingerprint
        """Of what was submitted here; None for an order that was only attached to."""
        self._line = line
        self._sequence = Sequence()
        self._statuses: list[Status] = []
        self._refusal: Status | None = None
        self._standing: Status | None = None
        self._cause: str | None = None
        self._attached = fingerprint is None
        self._refused_at = refused_at
        self._begun = False
        self._told = 0
        self._fault: BrokerError | None = None
        self._changed: asyncio.Event | None = None

    def __repr__(self) -> str:
        return f"<Order {self.key}: {self.status.status if self.status else 'no status yet'}>"

    @property
    def status(self) -> Status | None:
        """Where the order stands, as far as this client was told; None before the first status."""
        return self._standing or self._refusal

    @property
    def refused_at(self) -> datetime | None:
        """When it was refused, if that is all there is to know; it may be submitted again."""
        return self._refusal.at if self._refusal is not None and self._standing is None else None

    async def statuses(self) -> AsyncIterator[Status]:
        """Every status from the first on, each once and in order; ends after one that ends the order.

        ``failed`` and ``compensation_failed`` are no ends: an operator decides, and the statuses go on. A status
        that is missing for two seconds is asked for. Raises :class:`~triumvir.errors.BrokerError` when the client
        is closed.
        """
        await self._begin()
        given = 0
        while True:
            while given < len(self._statuses):
                status = self._statuses[given]
                given += 1
                yield status
                if status.status in ENDS:
                    return
            if given == 0 and self._refusal is not None:
                yield self._refusal
                return
            await self._wait()

    async def result(self, timeout: float | None = None) -> Any:
        """The last step's result, a JSON value, once the order is completed.

        Waits ``timeout`` seconds at most (None: without end), then raises TimeoutError, which changes nothing
        about the order. For other ends it raises :class:`~triumvir.errors.OrderCompensated`,
        :class:`~triumvir.errors.OrderCancelled`, :class:`~triumvir.errors.OrderClosed`,
        :class:`~triumvir.errors.OrderRejected` or :class:`~triumvir.errors.UnknownOrder`.
        :class:`~triumvir.errors.OrderHalted` and :class:`~triumvir.errors.OrderCompensationFailed` are not final:
        await it again, and it waits for what follows.
        """
        try:
            async with asyncio.timeout(timeout):
                return await self._result()
        except TimeoutError:
            last = self.status.status if self.status else "none"
            raise TimeoutError(
                f"order {self.key}: no result within {timeout} s; last status: {last}"
            ) from None

    async def cancel(self, reason: str | None = None) -> None:
        """Have the order stopped, or undone if anything was begun; a status tells which, or that it is too late.

        Returns when the broker has the request. Raises :class:`~triumvir.errors.BrokerError` if it cannot be sent.
        """
        await self._line.cancel(self.order_id, reason)

    async def signal(self, name: str, data: Any = None) -> None:
        """Send the signal that a step of the order waits for, or will wait for; ``data``, a JSON value, is its result.

        The first one of its name counts: the status ``signalled`` says so, or ``signal_refused`` why it does not.
        Returns when the broker has it. Raises :class:`~triumvir.errors.ContractError` if the submitter would refuse
        it, and :class:`~triumvir.errors.BrokerError` if it cannot be sent.
        """
        await self._line.signal(self.order_id, name, data)

    def receive(self, status: Status, now: float) -> None:
        """Take one status from the queue: doubled, late or out of order as it may be."""
        if status.sequence == 0:
            self._receive_refusal(status)
        else:
            if status.status not in ANSWERS and status.sequence > self._standing_sequence():
                self._standing = status
            if status.status == "compensating":
                self._cause = self._cause or status.detail
            self._statuses += self._sequence.add(status, now)
        self._notify()

    def ask_again(self, now: float) -> None:
        """Have whoever watches ask for what may have been lost: the connection was."""
        self._sequence.ask_at(now)
        self._notify()

    def fail(self, fault: BrokerError) -> None:
        """Nothing will come any more: tell whoever watches."""
        self._fault = fault
        self._notify()

    async def _begin(self) -> None:
        await self._line.follow()
        if self._attached and not self._begun:
            await self._line.query(self.order_id, 1)
            self._begun = True

    async def _result(self) -> Any:
        await self._begin()
        told = self._told
        while True:
            status = self.status
            final = status is not None and status.status in ENDS
            if status is not None and (final or (status.status in RESTS and status.sequence > told)):
                self._told = max(self._told, status.sequence)
                return result_of(self.key, status, self._cause)
            await self._wait()

    async def _wait(self) -> None:
        """Until something changes; asks for what is missing when that is due."""
        if self._fault is not None:
            raise self._fault
        if self._changed is None:
            self._changed = asyncio.Event()
        changed, due = self._changed, self._sequence.question_due
        try:
            async with asyncio.timeout_at(due):
                await changed.wait()
        except TimeoutError:
            await self._ask()

    async def _ask(self) -> None:
        now = asyncio.get_running_loop().time()
        number = self._sequence.question(now)
        if number is None:
            return
        try:
            await self._line.query(self.order_id, number)
        except BrokerError as error:
            _log.warning(events.QUESTION_UNSENT, order=self.key, problem=str(error))
            self._sequence.ask_at(now + ASK_AGAIN)

    def _receive_refusal(self, status: Status) -> None:
        old_news = self._refused_at is not None and status.at <= self._refused_at
        if status.status not in REFUSALS or old_news or self._refuses_command(status):
            return
        if self._standing is not None:
            if status.status == "unknown_order":
                self._statuses += self._sequence.release()
        elif status.status == "rejected" or self._attached:
            self._refusal = status

    def _refuses_command(self, status: Status) -> bool:
        """Whether a cancel, a signal or a question was refused, which says nothing about the order."""
        return status.status == "rejected" and is_command_id(self.key, status.submission or "")

    def _standing_sequence(self) -> int:
        return 0 if self._standing is None else self._standing.sequence

    def _notify(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()
