"""The client for code that blocks (Django, Flask, scripts): the same client, in a thread of its own.

::

    with BlockingClient("amqp://shop-a:password@localhost:5672/") as client:
        order = client.submit("order-fulfilment", {"sku": "84029G"}, order_id="o-1")
        print(order.result(timeout=30))

One BlockingClient may be used by any number of threads at once. Make it after forking, not before.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from pydantic import BaseModel

from triumvir.client.client import Client
from triumvir.client.order import Order
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import Status
from triumvir.errors import BrokerError

T = TypeVar("T")
_CLOSE_SECONDS: Final = 15.0


class BlockingClient:
    """A :class:`triumvir.Client` whose methods block the calling thread. Takes the same arguments.

    Use it as ``with BlockingClient(url) as client``, or :meth:`open` and :meth:`close` it. Any number of threads may
    use it at once. Make it after forking, not before: a thread does not survive a fork.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._url = url
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: Client | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connects. Raises :class:`~triumvir.errors.BrokerError` if that fails; opening twice changes nothing."""
        if self._loop is not None:
            return
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="triumvir client", daemon=True)
        thread.start()
        self._loop, self._thread = loop, thread
        try:
            self._client = self._run(self._connect())
        except BaseException:
            self._stop()
            raise

    def close(self) -> None:
        """Closes the connection and ends the thread.

        Threads that still wait get a :class:`~triumvir.errors.BrokerError`.
        """
        client, self._client = self._client, None
        if client is None or self._loop is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(_disconnect(client), self._loop).result(_CLOSE_SECONDS)
        finally:
            self._stop()

    def submit(
        self,
        workflow: str,
        payload: Mapping[str, Any] | BaseModel | JsonText,
        *,
        order_id: str,
        version: int | None = None,
        priority: int = 0,
        not_before: datetime | None = None,
        progress: bool = False,
    ) -> BlockingOrder:
        """Submit one order; returns once the broker has it. As :meth:`triumvir.Client.submit`."""
        submitted = self._open_client().submit(
            workflow,
            payload,
            order_id=order_id,
            version=version,
            priority=priority,
            not_before=not_before,
            progress=progress,
        )
        return BlockingOrder(self, self._run(submitted))

    def order(self, order_id: str) -> BlockingOrder:
        """An order that was submitted before, here or elsewhere. As :meth:`triumvir.Client.order`."""
        client = self._open_client()

        async def attach() -> Order:
            return client.order(order_id)

        return BlockingOrder(self, self._run(attach()))

    async def _connect(self) -> Client:
        return await Client(self._url, **self._options).__aenter__()

    def _open_client(self) -> Client:
        if self._client is None:
            raise BrokerError("the client is closed; use it inside its with block, or call open() first")
        return self._client

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or threading.current_thread() is thread:
            work.close()
            raise BrokerError("the client is closed, or used from its own thread")
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    def _stop(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_CLOSE_SECONDS)
        if not thread.is_alive():
            loop.close()


class BlockingOrder:
    """An order of a :class:`BlockingClient`. Any number of threads may wait for it."""

    def __init__(self, client: BlockingClient, order: Order) -> None:
        self._client = client
        self._order = order
        self.order_id = order.order_id
        self.key = order.key

    def __repr__(self) -> str:
        return repr(self._order).replace("<Order", "<BlockingOrder")

    @property
    def status(self) -> Status | None:
        """Where the order stands, as far as this client was told."""
        return self._order.status

    def statuses(self) -> Iterator[Status]:
        """Every status from the first on, in order; blocks between them. As :meth:`triumvir.Order.statuses`."""
        statuses = self._order.statuses()
        try:
            while (status := self._client._run(_next(statuses))) is not None:
                yield status
        finally:
            if self._client._loop is not None:
                self._client._run(_end(statuses))

    def result(self, timeout: float | None = None) -> Any:
        """The last step's result, or the error that says why there is none. As :meth:`triumvir.Order.result`."""
        return self._client._run(self._order.result(timeout))

    def cancel(self, reason: str | None = None) -> None:
        """Have the order stopped, or undone if anything was begun. As :meth:`triumvir.Order.cancel`."""
        self._client._run(self._order.cancel(reason))

    def signal(self, name: str, data: Any = None) -> None:
        """Send a signal that a step of the order waits for. As :meth:`triumvir.Order.signal`."""
        self._client._run(self._order.signal(name, data))


async def _disconnect(client: Client) -> None:
    """Closes it, and lets those who still wait learn of it before their loop stops."""
    await client.__aexit__()
    waiting = asyncio.all_tasks() - {asyncio.current_task()}
    if waiting:
        await asyncio.wait(waiting, timeout=2.0)


async def _next(statuses: AsyncIterator[Status]) -> Status | None:
    return await anext(statuses, None)


async def _end(statuses: AsyncIterator[Status]) -> None:
    close = getattr(statuses, "aclose", None)
    if close is not None:
        await close()
