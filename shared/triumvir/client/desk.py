"""The client's connections: one that publishes, and, once a status is waited for, one that reads its queue."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Sequence
from typing import Any, Final

from triumvir.broker import Connection, Publisher, connect, status_queue
from triumvir.client.courier import Courier
from triumvir.client.follower import Follower
from triumvir.client.outgoing import Letter, Sender
from triumvir.client.registry import Registry
from triumvir.contracts.messages import Status
from triumvir.errors import BrokerError

PAUSE: Final = 1.0
"""Seconds at most between two attempts to subscribe while the broker is away."""
UNNOTICED_TRIES: Final = 10
"""Attempts to open a connection that fail while another one still looks open."""


class Desk:
    """What a client and its orders share. Opened by :meth:`open`; nothing works after :meth:`close`."""

    def __init__(self, url: str, instance: str | None, timeout: float, registry: Registry) -> None:
        self._url = url
        self._instance = instance
        self._timeout = timeout
        self._registry = registry
        self._connection: Connection | None = None
        self._publisher: Publisher | None = None
        self._courier: Courier | None = None
        self._sender: Sender | None = None
        self._follower: Follower | None = None
        self._subscribing = asyncio.Lock()
        self._fault = BrokerError("the client is not open; write: async with Client(url) as client")

    async def open(self) -> None:
        """Connect. Raises BrokerError in words if that fails."""
        self._connection = await connect(self._url, self._label("publishing"), timeout=self._timeout)
        user = self._connection.user
        self._publisher = Publisher(self._connection)
        self._courier = Courier(self._publisher, user)
        self._sender = Sender(user, status_queue(user, self._instance))

    async def close(self) -> None:
        """Tell everybody who waits, then disconnect."""
        self._end(BrokerError("the client is closed"))
        if self._follower is not None:
            await self._follower.close()
        if self._publisher is not None:
            await self._publisher.close()
        if self._connection is not None:
            await self._connection.close()

    @property
    def sender(self) -> Sender:
        """Who sends. Raises BrokerError unless open."""
        if self._sender is None:
            raise self._fault
        return self._sender

    @property
    def name(self) -> str:
        """The client's name. Raises BrokerError unless open."""
        return self.sender.client

    async def follow(self) -> None:
        """Begin to read the status queue, if that was not begun; an outage of the broker is waited out.

        Raises BrokerError if the queue is not there or not ours.
        """
        async with self._subscribing:
            tries = 0
            while self._follower is None:
                tries += 1
                self._follower = await self._subscribed(self.sender, tries)

    async def _subscribed(self, sender: Sender, tries: int) -> Follower | None:
        """A follower that reads the queue; None if the broker is or was away, so that it is worth trying again.

        The connection that sends may notice an outage later than one that is being opened: a few ``tries`` are
        made although it looks open.
        """
        epoch = self._connection.epoch if self._connection is not None else 0
        follower = Follower(
            connection_url=self._url,
            connection_name=self._label("statuses"),
            queue=sender.status_queue,
            take=self._take,
            on_reconnect=self._registry.ask_again,
            on_end=self._end,
        )
        try:
            await follower.start(self._timeout)
        except BrokerError:
            sound = self._connection is not None and (
                self._connection.is_open and self._connection.epoch == epoch
            )
            if self._connection is None or (sound and (follower.reached_queue or tries >= UNNOTICED_TRIES)):
                raise
            await asyncio.sleep(random.uniform(0.5, 1.0) * PAUSE)
            return None
        return follower

    async def query(self, order_id: str, from_sequence: int) -> None:
        """Have every status of an order from ``from_sequence`` on sent again. Raises BrokerError."""
        await self._send(self.sender.query(order_id, from_sequence))

    async def cancel(self, order_id: str, reason: str | None) -> None:
        """Ask for a cancel. Raises BrokerError."""
        await self._send(self.sender.cancel(order_id, reason))

    async def signal(self, order_id: str, name: str, data: Any) -> None:
        """Send a signal. Raises ContractError for one that would be refused, and BrokerError."""
        await self._send(self.sender.signal(order_id, name, data))

    async def deliver(self, letters: Sequence[Letter]) -> list[BrokerError | None]:
        """None for each letter that the broker has, else why it has not."""
        if self._courier is None or self._sender is None:
            raise self._fault
        faults = await self._courier.send([letter.message for letter in letters]) if letters else []
        for letter, fault in zip(letters, faults, strict=True):
            letter.sent(fault)
        return faults

    async def _send(self, letter: Letter) -> None:
        (fault,) = await self.deliver([letter])
        if fault is not None:
            raise fault

    def _take(self, status: Status) -> None:
        self._registry.take(self.name, status)

    def _end(self, fault: BrokerError) -> None:
        self._fault = fault
        self._sender = None
        self._registry.fail(fault)

    def _label(self, purpose: str) -> str:
        instance = f" {self._instance}" if self._instance else ""
        return f"triumvir client{instance} {purpose} {socket.gethostname()}:{os.getpid()}"
