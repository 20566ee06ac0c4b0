"""Bring a topology into being. Repeating it changes nothing; a difference is named, never forced."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from aiormq.channel import Channel
from aiormq.exceptions import ChannelAccessRefused, ChannelPreconditionFailed

from triumvir.broker.address import plain
from triumvir.broker.connection import CHANNEL_ERRORS, Connection, close_channel, raise_if_cancelled
from triumvir.broker.topology import Binding, ExchangeSpec, QueueSpec, Topology
from triumvir.errors import BrokerError, TopologyMismatch

_DIFFERENCE: Final = re.compile(
    r"inequivalent arg '([^']+)' for (\w+) '([^']+)'.*?: received (.*)", re.DOTALL
)

Declaration = Callable[[Channel], Awaitable[object]]


async def declare(connection: Connection, topology: Topology, *, timeout: float = 10.0) -> None:
    """Declare exchanges, queues and bindings; each step may take ``timeout`` seconds.

    Raises TopologyMismatch naming every queue and exchange that exists with other arguments (the others are
    declared all the same), BrokerError for anything else. What exists is never changed.
    """
    declaring = _Declaring(connection, timeout)
    try:
        for exchange in topology.exchanges:
            await declaring.attempt(f"exchange {exchange.name!r}", _exchange(exchange, timeout))
        for queue in topology.queues:
            await declaring.attempt(f"queue {queue.name!r}", _queue(queue, timeout))
        if not declaring.differences:
            for binding in topology.bindings:
                await declaring.attempt(f"binding of queue {binding.queue!r}", _binding(binding, timeout))
    finally:
        await declaring.close()
    if declaring.differences:
        raise TopologyMismatch("; ".join(declaring.differences))


class _Declaring:
    """One channel for as long as nothing fails; a failed declaration closes it, the next one gets a new one."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._channel: Channel | None = None
        self.differences: list[str] = []

    async def attempt(self, what: str, declaration: Declaration) -> None:
        if self._channel is None or self._channel.is_closed:
            self._channel = await self._connection.channel(confirms=False, timeout=self._timeout)
        try:
            await declaration(self._channel)
        except ChannelPreconditionFailed as error:
            self.differences.append(_difference(what, str(error)))
        except ChannelAccessRefused as error:
            raise BrokerError(f"{what}: user {self._connection.user!r} may not declare it: {error}") from None
        except CHANNEL_ERRORS as error:
            raise_if_cancelled(error)
            raise BrokerError(f"{what} could not be declared: {plain(error)}") from None

    async def close(self) -> None:
        await close_channel(self._channel)


def _exchange(exchange: ExchangeSpec, timeout: float) -> Declaration:
    return lambda channel: channel.exchange_declare(
        exchange.name, exchange_type=exchange.kind, durable=True, timeout=timeout
    )


def _queue(queue: QueueSpec, timeout: float) -> Declaration:
    return lambda channel: channel.queue_declare(
        queue.name, durable=True, arguments=dict(queue.arguments), timeout=timeout
    )


def _binding(binding: Binding, timeout: float) -> Declaration:
    return lambda channel: channel.queue_bind(
        binding.queue, binding.exchange, routing_key=binding.routing_key, timeout=timeout
    )


def _difference(what: str, reply: str) -> str:
    found = _DIFFERENCE.search(reply)
    if found is None:
        return f"{what}: {reply}"
    argument, kind, name, values = found.groups()
    needed, _, current = values.partition(" but current is ")
    return f"{kind} {name!r} exists with another {argument}: needed {_value(needed)}, found {_value(current)}"


def _value(text: str) -> str:
    """RabbitMQ writes ``received 'x'``, ``'x'``, ``the value 'x' of type 'byte'`` or ``none``."""
    quoted = re.search(r"'[^']*'", text)
    return quoted[0] if quoted else "none"
