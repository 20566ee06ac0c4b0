"""A connection to RabbitMQ that comes back by itself.

aio-pika opens it, keeps its heartbeat and reconnects it. The channels on it are plain ones that their owner opens,
uses and forgets: a channel that restored itself behind its owner's back would hand old tags to a new channel.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final, cast

import aio_pika
import aiormq
from aio_pika.abc import ConnectionParameter
from aiormq.abc import AbstractConnection
from aiormq.channel import Channel

from triumvir.broker.address import plain, read_address, why_not
from triumvir.broker.fast import compatibility
from triumvir.broker.fast.channel import HotChannel
from triumvir.broker.fast.stream import Streams
from triumvir.broker.foreign import tolerate_foreign_properties
from triumvir.broker.outlet import Outlet
from triumvir.broker.readiness import done_before_close, is_ready
from triumvir.errors import BrokerError
from triumvir.settings import Transport, chosen_transport
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

HEARTBEAT: Final = 10
"""Seconds; the broker drops a silent client after two of them, the client a silent broker after about three."""
FIRST_RECONNECT: Final = 0.5
LONGEST_RECONNECT: Final = 10.0

CHANNEL_ERRORS: Final = (aiormq.AMQPError, OSError, RuntimeError, TimeoutError, asyncio.CancelledError)
"""What using a channel raises when it, or its connection, is closed or closes meanwhile."""

_CONNECT_ERRORS: Final = (
    aiormq.AMQPError,
    OSError,
    RuntimeError,
    TimeoutError,
    StopAsyncIteration,  # aiormq, when the other side hung up before the first frame was waited for
)

_log = get_logger("triumvir.broker")


def _only_ours(factory: object) -> object:
    """A factory cannot be named in a URL."""
    return factory if isinstance(factory, Streams) else None


class _Reconnecting(aio_pika.RobustConnection):
    """aio-pika's own, with a growing and jittered pause between attempts instead of a fixed one."""

    PARAMETERS = (
        *aio_pika.RobustConnection.PARAMETERS,
        ConnectionParameter(name="transport_factory", parser=_only_ours, is_kwarg=True),
    )
    failed_attempts = 0

    @property
    def reconnect_interval(self) -> float:
        longest = min(LONGEST_RECONNECT, FIRST_RECONNECT * 2 ** min(self.failed_attempts, 10))
        return random.uniform(longest / 2, longest)

    @reconnect_interval.setter
    def reconnect_interval(self, value: Any) -> None:
        """Set by the base class from the URL; not used."""

    async def _on_connected(self) -> None:
        await super()._on_connected()
        self.failed_attempts = 0

    async def _on_connection_close(self, closing: asyncio.Future[Any]) -> None:
        self.failed_attempts += 1
        await super()._on_connection_close(closing)


class Connection:
    """One connection of a process; ``name`` is what operators see. Made by :func:`connect`."""

    def __init__(self, robust: _Reconnecting, name: str, streams: Streams | None) -> None:
        self._robust = robust
        self._streams = streams
        self._callbacks: set[Callable[[], None]] = set()
        self._epoch = 1
        self._up = True
        self._closing = False
        self.name = name
        self.user = robust.url.user or "guest"
        robust.reconnect_callbacks.add(self._reconnected)
        robust.close_callbacks.add(self._lost)

    @property
    def is_open(self) -> bool:
        """Whether it is connected at this moment."""
        transport = self._robust.transport
        return not self._closing and transport is not None and not transport.connection.is_closed

    @property
    def server_version(self) -> str:
        """What the broker says of itself, such as ``3.10.8``; empty while not connected."""
        transport = self._robust.transport
        properties = transport.connection.server_properties if transport is not None else {}
        return str(properties.get("version") or "")

    @property
    def epoch(self) -> int:
        """1 for the first connect, one more for each reconnect."""
        return self._epoch

    @property
    def transport(self) -> Transport:
        """How its hot frames are handled."""
        return "stock" if self._streams is None else "fast"

    @property
    def is_closing(self) -> bool:
        """Whether :meth:`close` was called; it does not come back then."""
        return self._closing

    def on_reconnect(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have ``callback`` called after each reconnect. Returns what takes it off again."""
        self._callbacks.add(callback)
        return lambda: self._callbacks.discard(callback)

    @property
    def is_ready(self) -> bool:
        """Whether it is connected and not blocked by an alarm of the broker."""
        transport = self._robust.transport
        return transport is not None and self.is_open and is_ready(transport.connection)

    async def ready(self, timeout: float) -> None:
        """Return once connected and not blocked by an alarm of the broker. Raises BrokerError after ``timeout`` s."""
        if self.is_ready:
            return  # as a rule: without a task, for every publish asks
        try:
            async with asyncio.timeout(timeout):
                await self._ready()
        except TimeoutError:
            raise BrokerError(f"{self.name}: RabbitMQ was away or blocked for {timeout:g} s") from None

    async def channel(self, *, confirms: bool, timeout: float) -> Channel:
        """A new plain channel, once connected. Raises BrokerError after ``timeout`` seconds, or if it is refused."""
        try:
            async with asyncio.timeout(timeout):
                while (channel := await _open_channel(await self._ready(), confirms, timeout)) is None:
                    pass
        except TimeoutError:
            raise BrokerError(f"{self.name}: no channel could be opened in {timeout:g} s") from None
        Outlet.attach(channel)
        return channel

    def below(self, channel: Channel) -> tuple[HotChannel, asyncio.Event] | None:
        """The fast side of an open channel, and what is set while the socket takes more. None: it has none."""
        transport = self._robust.transport
        stream = self._streams.current if self._streams is not None else None
        if (
            stream is None
            or transport is None
            or transport.connection is not channel.connection
            or transport.connection.channels.get(channel.number) is not channel
        ):
            return None
        hot = stream.splitter.channels.get(channel.number)
        return None if hot is None else (hot, stream.takes_more)

    async def close(self, timeout: float = 5.0) -> None:
        """Close it, waiting ``timeout`` seconds for the broker. Unacknowledged deliveries return to their queues."""
        self._closing = True
        self._callbacks.clear()
        try:
            async with asyncio.timeout(timeout):
                await self._robust.close()
        except CHANNEL_ERRORS as error:
            raise_if_cancelled(error)
            _log.warning(events.BROKER_CLOSE_INCOMPLETE, connection=self.name, problem=plain(error))

    async def _ready(self) -> AbstractConnection:
        while True:
            if self._closing:
                raise BrokerError(f"{self.name}: the connection is closed")
            await self._robust.connected.wait()
            transport = self._robust.transport
            if transport is None or transport.connection.is_closed:
                await asyncio.sleep(0.01)  # lost, and about to be known as lost
            elif await done_before_close(transport.connection, transport.connection.ready()):
                return transport.connection

    def _lost(self, _: object, error: BaseException | None) -> None:
        if not self._closing:
            _log.warning(
                events.BROKER_LOST, connection=self.name, problem=plain(error) if error else "closed"
            )

    def _reconnected(self, *_: object) -> None:
        self._epoch += 1
        self._up = True
        _log.info(events.BROKER_CONNECTED, connection=self.name, epoch=self._epoch)
        for callback in tuple(self._callbacks):
            callback()


async def connect(
    url: str,
    name: str,
    *,
    timeout: float = 10.0,
    heartbeat: int = HEARTBEAT,
    transport: Transport | None = None,
) -> Connection:
    """Connect to the broker at ``url`` within ``timeout`` seconds.

    ``name`` is shown in RabbitMQ's list of connections. ``transport`` is TRIUMVIR_TRANSPORT when not given.
    Raises BrokerError in words, never with the password.
    """
    tolerate_foreign_properties()
    address = read_address(url)
    query = {"heartbeat": str(heartbeat), **address.query}
    streams = _streams(transport or chosen_transport())
    robust = _Reconnecting(
        address.with_query(query), client_properties={"connection_name": name}, transport_factory=streams
    )
    try:
        async with asyncio.timeout(timeout):
            await robust.connect(timeout=timeout)
    except _CONNECT_ERRORS as error:
        await _abandon(robust)
        raise why_not(error, address, timeout) from None
    except BaseException:
        await _abandon(robust)
        raise
    return Connection(robust, name, streams)


def _streams(transport: Transport) -> Streams | None:
    """What opens the sockets of a fast connection; None for stock, also where fast would be a risk."""
    if transport == "stock":
        return None
    misfit = compatibility.misfit()
    if misfit is not None:
        _log.warning(events.TRANSPORT_FALLBACK, problem=misfit, transport="stock", fix=compatibility.FIX)
        return None
    return Streams()


async def close_channel(channel: Channel | None, timeout: float = 2.0) -> None:
    """Close a channel if it is still open; one that does not answer dies with its connection."""
    if channel is None or channel.is_closed:
        return
    try:
        await channel.close(timeout=timeout)
    except CHANNEL_ERRORS as error:
        raise_if_cancelled(error)


def raise_if_cancelled(error: BaseException) -> None:
    """aiormq cancels its own calls when a channel closes; pass on only a cancellation that is meant for this task."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error


async def _open_channel(connection: AbstractConnection, confirms: bool, timeout: float) -> Channel | None:
    """A channel of ``connection``; None if that was lost meanwhile. Raises BrokerError if it is refused."""
    opening = connection.channel(publisher_confirms=confirms, on_return_raises=confirms, timeout=timeout)
    try:
        opened = await done_before_close(connection, opening)
        return cast(Channel, opened.result()) if opened else None
    except CHANNEL_ERRORS as error:
        raise_if_cancelled(error)
        if connection.is_closed:
            return None
        raise BrokerError(f"no channel could be opened: {plain(error)}") from None


async def _abandon(robust: _Reconnecting) -> None:
    try:
        async with asyncio.timeout(2.0):
            await robust.close()
    except CHANNEL_ERRORS as error:
        raise_if_cancelled(error)
        _log.debug(events.BROKER_CLOSE_INCOMPLETE, problem=plain(error))
