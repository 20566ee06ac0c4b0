"""Takes a client's statuses from its private queue and hands them to who waits for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from triumvir.broker import Connection, Consumer, Delivery, connect
from triumvir.contracts import codec
from triumvir.contracts.messages import Status
from triumvir.errors import BrokerError, ContractError
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

PREFETCH: Final = 400
WATCH_SECONDS: Final = 10.0

_log = get_logger(__name__)


class Follower:
    """One consumer of a status queue. Each status is given to ``take``, then acknowledged.

    ``take`` must not fail; ``on_reconnect`` is called after each reconnect, ``on_end`` with the reason if it ends
    by itself.
    """

    def __init__(
        self,
        connection_url: str,
        connection_name: str,
        queue: str,
        take: Callable[[Status], None],
        on_reconnect: Callable[[], None],
        on_end: Callable[[BrokerError], None],
    ) -> None:
        self._url = connection_url
        self._name = connection_name
        self._queue = queue
        self._take = take
        self._on_reconnect = on_reconnect
        self._on_end = on_end
        self._connection: Connection | None = None
        self._consumer: Consumer | None = None
        self.reached_queue = False
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    async def start(self, timeout: float) -> None:
        """Subscribe. Raises BrokerError if the queue is not there or not ours, or the broker is away."""
        try:
            self._connection = await connect(self._url, self._name, timeout=timeout)
            self._connection.on_reconnect(self._on_reconnect)
            self.reached_queue = True
            self._consumer = Consumer(self._connection, self._queue, PREFETCH, timeout=timeout)
            await self._warn_of_others(self._consumer)
            await self._consumer.start()
        except BaseException as error:
            await self.close()
            if isinstance(error, BrokerError) and self._consumer is not None:
                raise BrokerError(
                    f"{error}; a client and its queue are made by: triumvir clients add"
                ) from None
            raise
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._receive(self._consumer)),
            loop.create_task(self._watch(self._consumer)),
        ]
        self._tasks[0].add_done_callback(self._ended)

    async def close(self) -> None:
        """Stop; what was not handed over stays in the queue."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._consumer is not None:
            await self._consumer.close()
        if self._connection is not None:
            await self._connection.close()

    async def _receive(self, consumer: Consumer) -> None:
        while not self._closed and (batch := await consumer.batch(PREFETCH)):
            for delivery in batch:
                status = _status_in(delivery)
                if status is not None:
                    self._take(status)
            await consumer.settle(batch)

    async def _watch(self, consumer: Consumer) -> None:
        """A consumer that came back without its subscription receives nothing and looks well.

        A cancel that meets a question to the broker may be taken for a lost channel, and is lost then.
        """
        while not self._closed:
            await asyncio.sleep(WATCH_SECONDS)
            await consumer.ensure_subscribed()

    async def _warn_of_others(self, consumer: Consumer) -> None:
        """The broker serves one reader at a time, and it gets the statuses of all orders of this queue."""
        if await consumer.readers() > 0:
            _log.warning(
                events.STATUS_QUEUE_SHARED,
                queue=self._queue,
                problem="another process reads it, and may get the statuses that this one waits for",
                fix="triumvir clients add NAME --instance, then Client(url, instance=...)",
            )

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._on_end(
                BrokerError(f"no more statuses are taken from {self._queue!r}: {task.exception()!r}")
            )


def _status_in(delivery: Delivery) -> Status | None:
    """The status of a delivery; None, with a warning, for what this release cannot read."""
    with contextlib.suppress(ContractError):
        message = codec.decode(delivery.type, delivery.body)
        if isinstance(message, Status):
            return message
    _log.warning(events.STATUS_UNREADABLE, message_id=delivery.message_id, type=delivery.type)
    return None
