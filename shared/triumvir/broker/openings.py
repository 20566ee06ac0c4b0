"""Opens what publishes and what consumes on a connection, as the transport of that connection has it."""

from __future__ import annotations

import asyncio

from triumvir.broker.connection import Connection
from triumvir.broker.fast.lane import FastLane
from triumvir.broker.fast.session import FastSession
from triumvir.broker.session import Session
from triumvir.broker.stock import StockLane
from triumvir.broker.volley import Lane


async def open_lane(connection: Connection, timeout: float) -> Lane:
    """A channel to publish on. Raises BrokerError after ``timeout`` seconds, or if it is refused."""
    channel = await connection.channel(confirms=True, timeout=timeout)
    fast = connection.below(channel)
    return FastLane(channel, *fast) if fast is not None else StockLane(channel)


async def open_session(connection: Connection, queue: str, changed: asyncio.Event, timeout: float) -> Session:
    """A channel to consume ``queue`` on. Raises BrokerError after ``timeout`` seconds, or if it is refused."""
    channel = await connection.channel(confirms=False, timeout=timeout)
    fast = connection.below(channel)
    return (
        FastSession(queue, channel, changed, fast[0])
        if fast is not None
        else Session(queue, channel, changed)
    )
