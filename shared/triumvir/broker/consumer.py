"""Take deliveries in batches from one queue, on a channel of its own that is renewed when it is lost."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, Literal

import structlog
from aiormq import spec
from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from aiormq.exceptions import ChannelNotFoundEntity

from triumvir.broker.connection import CHANNEL_ERRORS, Connection, plain, raise_if_cancelled
from triumvir.broker.declare import close_channel, declare
from triumvir.broker.messages import Delivery
from triumvir.broker.topology import Topology
from triumvir.errors import BrokerError

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 10.0

AckMode = Literal["front", "single"]

_log = structlog.get_logger("triumvir.broker")


class Consumer:
    """One consumer of ``queue`` with at most ``prefetch`` unsettled deliveries.

    ``ack="front"`` acknowledges the contiguous settled front with one frame; ``"single"`` each settled delivery.
    ``topology`` is declared again if the queue is gone; without it the consumer waits until somebody else does.
    ``timeout`` (seconds) bounds each exchange with the broker.
    """

    def __init__(
        self,
        connection: Connection,
        queue: str,
        prefetch: int,
        *,
        ack: AckMode = "front",
        topology: Topology | None = None,
        timeout: float = 10.0,
    ) -> None:
        if prefetch < 1:
            raise ValueError("prefetch must be 1 or more: without it a consumer takes the whole queue into memory")
        self.queue = queue
        self._connection = connection
        self._prefetch = prefetch
        self._ack: AckMode = ack
        self._topology = topology
        self._timeout = timeout
        self._session: _Session | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stopping = False
        self._changed = asyncio.Event()
        self._seen: _Sight | None = None

    @property
    def subscribed(self) -> bool:
        """Whether the broker has this consumer, as far as this side knows."""
        session = self._session
        return session is not None and session.is_consuming and self._connection.is_open and not self._stopping

    async def start(self) -> None:
        """Subscribe. Raises BrokerError if that fails the first time; later it is tried again for ever."""
        self._session = await self._subscribe()
        self._keeper = asyncio.get_running_loop().create_task(self._keep())
        self._changed.set()

    async def batch(self, limit: int) -> list[Delivery]:
        """Wait for a delivery, then return all that are there, ``limit`` at most. Empty once taking has stopped."""
        while not self._stopping:
            session = self._session
            if session is not None and session.buffer:
                return session.take(limit)
            self._changed.clear()
            await self._changed.wait()
        return []

    async def settle(self, deliveries: Iterable[Delivery]) -> None:
        """Mark as settled, and acknowledge what may be. Those of a lost channel are dropped: they come again."""
        sessions: dict[int, _Session] = {}
        for delivery in deliveries:
            session = delivery.channel
            if isinstance(session, _Session) and session.mark(delivery.tag):
                sessions[id(session)] = session
        for session in sessions.values():
            await self._acknowledge(session)

    async def stop_taking(self) -> None:
        """Cancel the subscription and give back what nobody has taken. What is in hand can still be settled."""
        if self._stopping:
            return
        self._stopping = True
        self._changed.set()
        session = self._session
        if session is None or session.channel.is_closed:
            return
        try:
            await session.channel.basic_cancel(session.consumer_tag, timeout=self._timeout)
            await session.give_back()
        except CHANNEL_ERRORS as error:
            raise_if_cancelled(error)
            _log.warning("consumer could not be cancelled", queue=self.queue, problem=plain(error))
            await close_channel(session.channel)

    async def close(self) -> None:
        """Stop, and close the channel: whatever is unsettled returns to the queue."""
        self._stopping = True
        self._changed.set()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        session, self._session = self._session, None
        if session is not None:
            await close_channel(session.channel)

    async def ensure_subscribed(self) -> bool:
        """Ask the broker whether this consumer is served, and renew the subscription if not.

        True: it was. False: it was not, or the broker could not be asked. To be called every few seconds: starving
        (ready messages, room for them, and none delivered between two calls) is the sign that another instance's
        consumers cannot hide.
        """
        session = self._session
        if self._stopping or session is None or session.ended.is_set():
            return False
        try:
            ready, consumers = await self._look()
        except BrokerError as error:
            _log.warning("queue could not be looked at", queue=self.queue, problem=str(error))
            return False
        sight = _Sight(session, session.delivered, ready)
        starved = self._seen is not None and sight.starved_since(self._seen, self._prefetch)
        self._seen = sight
        if session.is_consuming and consumers > 0 and not starved:
            return True
        _log.error("consumer is gone; subscribing again", queue=self.queue, consumers=consumers, ready=ready)
        session.ended.set()
        return False

    async def _keep(self) -> None:
        failures = 0
        while not self._stopping:
            session = self._session
            if session is not None:
                await session.ended.wait()
                self._session = None
                await close_channel(session.channel)
                continue
            try:
                self._session = await self._subscribe()
            except BrokerError as error:
                failures += 1
                _log.warning("no subscription", queue=self.queue, failures=failures, problem=str(error))
                await asyncio.sleep(_pause(failures))
                continue
            failures = 0
            self._changed.set()
            _log.info("subscribed again", queue=self.queue)

    async def _subscribe(self) -> _Session:
        channel = await self._connection.channel(confirms=False, timeout=self._timeout)
        session = _Session(self.queue, channel, self._changed)
        try:
            await channel.basic_qos(prefetch_count=self._prefetch, timeout=self._timeout)
            await channel.basic_consume(
                self.queue, session.deliver, consumer_tag=session.consumer_tag, timeout=self._timeout
            )
        except ChannelNotFoundEntity as error:
            await self._restore_queue()
            raise BrokerError(f"queue {self.queue!r} does not exist: {error}") from None
        except CHANNEL_ERRORS as error:
            await close_channel(channel)
            raise_if_cancelled(error)
            raise BrokerError(f"queue {self.queue!r} cannot be consumed: {plain(error)}") from None
        return session

    async def _restore_queue(self) -> None:
        if self._topology is not None and self._keeper is not None:
            _log.error("queue was gone; declaring it again", queue=self.queue)
            await declare(self._connection, self._topology, timeout=self._timeout)

    async def _acknowledge(self, session: _Session) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await session.acknowledge(self._ack)
        except CHANNEL_ERRORS as error:
            raise_if_cancelled(error)
            _log.warning("acknowledgement lost; deliveries will come again", queue=self.queue, problem=plain(error))
            session.ended.set()

    async def _look(self) -> tuple[int, int]:
        """Ready messages and consumers of the queue, asked on a channel of its own: a refusal closes it."""
        channel = await self._connection.channel(confirms=False, timeout=self._timeout)
        try:
            found = await channel.queue_declare(self.queue, passive=True, timeout=self._timeout)
            return found.message_count or 0, found.consumer_count or 0
        except ChannelNotFoundEntity:
            return 0, 0
        except CHANNEL_ERRORS as error:
            raise_if_cancelled(error)
            raise BrokerError(plain(error)) from None
        finally:
            await close_channel(channel)


class _Session:
    """One channel with one subscription: its deliveries and their tags live and die with it."""

    def __init__(self, queue: str, channel: Channel, changed: asyncio.Event) -> None:
        self.queue = queue
        self.channel = channel
        self.consumer_tag = f"{queue}.{random.getrandbits(64):016x}"
        self.buffer: deque[Delivery] = deque()
        self.delivered = 0
        self.ended = asyncio.Event()
        self._changed = changed
        self._unsettled: dict[int, bool] = {}
        """By tag, in order of arrival: whether it is settled, but not yet acknowledged."""
        self._acknowledging = asyncio.Lock()
        channel.closing.add_done_callback(self._on_closed)
        channel.on_consumer_cancel_callbacks.add(self._on_cancelled)

    @property
    def is_consuming(self) -> bool:
        return (
            not self.ended.is_set() and not self.channel.is_closed and self.consumer_tag in self.channel.consumers
        )

    @property
    def unsettled(self) -> int:
        return len(self._unsettled)

    async def deliver(self, message: DeliveredMessage) -> None:
        """Called by aiormq for each delivery, in order. Awaits nothing, so the order stays."""
        method, properties = message.delivery, message.header.properties
        tag: int = method.delivery_tag  # type: ignore[union-attr, assignment]  # only deliveries come here
        self._unsettled[tag] = False
        self.delivered += 1
        self.buffer.append(
            Delivery(
                queue=self.queue,
                body=message.body,
                message_id=properties.message_id,
                type=properties.message_type,
                correlation_id=properties.correlation_id,
                user_id=properties.user_id,
                reply_to=properties.reply_to,
                content_type=properties.content_type,
                headers=properties.headers or {},
                redelivered=bool(message.redelivered),
                timestamp=properties.timestamp,
                tag=tag,
                channel=self,
            )
        )
        self._changed.set()

    def take(self, limit: int) -> list[Delivery]:
        if limit >= len(self.buffer):
            taken = list(self.buffer)
            self.buffer.clear()
            return taken
        return [self.buffer.popleft() for _ in range(limit)]

    def mark(self, tag: int) -> bool:
        """Mark as settled; whether that was news to a channel that still lives."""
        if self.channel.is_closed or self.ended.is_set() or tag not in self._unsettled:
            return False
        self._unsettled[tag] = True
        return True

    async def acknowledge(self, mode: AckMode) -> None:
        """Acknowledge the settled front at once and, in single mode, the settled ones behind it.

        Under a lock, because a front that overtakes a later one names tags the broker no longer has; and nothing
        is forgotten before it was handed over, so a cancelled call leaves its work to the next one.
        """
        async with self._acknowledging:
            front = self._front()
            if front:
                await self.channel.basic_ack(front[-1], multiple=len(front) > 1, wait=False)
                for tag in front:
                    del self._unsettled[tag]
            if mode == "single":
                for tag in [tag for tag, settled in self._unsettled.items() if settled]:
                    await self.channel.basic_ack(tag, wait=False)
                    del self._unsettled[tag]

    def _front(self) -> list[int]:
        front: list[int] = []
        for tag, settled in self._unsettled.items():
            if not settled:
                break
            front.append(tag)
        return front

    async def give_back(self) -> None:
        """Return what nobody has taken to the queue, for other consumers."""
        while self.buffer:
            tag = self.buffer.popleft().tag
            await self.channel.basic_nack(tag, requeue=True, wait=False)
            del self._unsettled[tag]

    def _on_closed(self, closing: asyncio.Future[Any]) -> None:
        if not closing.cancelled():
            closing.exception()
        self._end()

    def _on_cancelled(self, frame: spec.Basic.Cancel) -> None:
        if frame.consumer_tag == self.consumer_tag:
            _log.error("consumer was cancelled by the broker", queue=self.queue)
            self._end()

    def _end(self) -> None:
        self.buffer.clear()
        self.ended.set()


class _Sight:
    """What one look at the queue showed."""

    def __init__(self, session: _Session, delivered: int, ready: int) -> None:
        self.session = session
        self.delivered = delivered
        self.ready = ready

    def starved_since(self, before: _Sight, prefetch: int) -> bool:
        """Whether messages waited at both looks, with room for them here, and none came in between."""
        return (
            before.session is self.session
            and before.delivered == self.delivered
            and before.ready > 0
            and self.ready > 0
            and self.session.unsettled < prefetch
        )


def _pause(failures: int) -> float:
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 10))
    return random.uniform(longest / 2, longest)
