"""Take deliveries in batches from one queue, on a channel of its own that is renewed when it is lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Final

from aiormq.exceptions import ChannelNotFoundEntity

from triumvir.broker.address import plain
from triumvir.broker.connection import CHANNEL_ERRORS, Connection, raise_if_cancelled
from triumvir.broker.declare import declare
from triumvir.broker.looking import Sight, look
from triumvir.broker.messages import Delivery
from triumvir.broker.openings import open_session
from triumvir.broker.retired import Retired, is_worth_it
from triumvir.broker.session import AckMode, Session
from triumvir.broker.topology import Topology, client_of_status_queue
from triumvir.errors import BrokerError
from triumvir.telemetry import events, metrics
from triumvir.telemetry.logs import get_logger

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 10.0

_log = get_logger("triumvir.broker")


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
        if not 1 <= prefetch <= 65_535:
            raise ValueError(f"prefetch {prefetch}: 1 to 65535; 0 would take the whole queue into memory")
        self.queue = queue
        self._connection = connection
        self._prefetch = prefetch
        self._ack: AckMode = ack
        self._topology = topology
        self._timeout = timeout
        self._takes_turns = client_of_status_queue(queue) is not None
        """A status queue has a single active consumer; the others wait for their turn, and do not starve."""
        self._session: Session | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self._changed = asyncio.Event()
        self._seen: Sight | None = None
        self._capacity = prefetch
        self._retired = Retired()
        self._fitting = asyncio.Lock()
        self._fitted_at = float("-inf")

    @property
    def subscribed(self) -> bool:
        """Whether the broker has this consumer, as far as this side knows; or there is no room to take anything."""
        session = self._session
        if not self._prefetch:
            return self._connection.is_open and not self._stopped.is_set()
        return (
            session is not None
            and session.is_consuming
            and self._connection.is_open
            and not self._stopped.is_set()
        )

    @property
    def unsettled(self) -> int:
        """Deliveries that the broker still waits for, those not yet taken included."""
        current = self._session.unsettled if self._session is not None else 0
        return current + self._retired.held()

    async def start(self) -> None:
        """Subscribe. Raises BrokerError if that fails the first time; later it is tried again for ever."""
        self._session = await self._subscribe()
        self._keeper = asyncio.get_running_loop().create_task(self._keep())
        self._changed.set()

    async def batch(self, limit: int) -> list[Delivery]:
        """Wait for a delivery, then return all that are there, ``limit`` at most. Empty once taking has stopped."""
        while not self._stopped.is_set():
            sessions: list[Session | None] = [*self._retired, self._session]
            for session in sessions:
                if session is not None and session.buffer:
                    taken = session.take(limit)
                    self._count(taken)
                    return taken
            self._changed.clear()
            await self._changed.wait()
        return []

    async def settle(self, deliveries: Iterable[Delivery]) -> None:
        """Mark as settled, and acknowledge what may be. Those of a lost channel are dropped: they come again."""
        sessions: dict[Session, None] = {}
        for delivery in deliveries:
            session = delivery.channel
            if isinstance(session, Session) and session.mark(delivery.tag):
                sessions[session] = None
        for session in sessions:
            await self._acknowledge(session)
        await self._retired.close_empty()

    async def fit(self, capacity: int, leaving: Delivery | None = None) -> None:
        """Have at most ``capacity`` deliveries in hand from now on (0: none), ``leaving``, which is acknowledged next,
        not counted. A smaller number holds on return; a larger one soon, and costs nothing to ask for again. No
        delivery is given back for it: the old subscription is cancelled, and its channel stays for what it brought.
        """
        if capacity == self._prefetch == self._capacity and not any(self._retired):
            return
        async with self._fitting:
            self._capacity = capacity
            subscribing = self._session is None and self._prefetch > 0
            if self._stopped.is_set() or subscribing:
                return
            now = asyncio.get_running_loop().time()
            spare = capacity - self._retired.held(leaving) - self._prefetch
            if is_worth_it(spare, self._prefetch, capacity, now - self._fitted_at):
                self._fitted_at = now
                await self._subscribe_anew(leaving)

    async def _subscribe_anew(self, leaving: Delivery | None) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        session, self._session = self._session, None
        if session is not None:
            self._retired.add(session)
        try:
            if session is not None:
                await session.cancel(self._timeout)
        finally:  # whoever asked may have been cancelled
            self._prefetch = max(0, self._capacity - self._retired.held(leaving))
            if self._prefetch:
                self._keeper = asyncio.get_running_loop().create_task(self._keep(renewed=False))
        await self._retired.close_empty()

    async def stop_taking(self) -> None:
        """Cancel the subscription and give back what nobody has taken. What is in hand can still be settled."""
        if self._stopped.is_set():
            return
        self._stop()
        async with self._fitting:
            if self._session is not None:
                await self._session.cancel(self._timeout)
            for session in (*self._retired, self._session):
                if session is not None:
                    await session.give_back()

    async def close(self) -> None:
        """Stop, and close the channel: whatever is unsettled returns to the queue."""
        self._stop()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        session, self._session = self._session, None
        for open_one in (*self._retired, session):
            if open_one is not None:
                open_one.end()
                await open_one.close()

    async def ensure_subscribed(self) -> bool:
        """Ask the broker whether this consumer is served, and renew the subscription if not.

        True: it was. False: it was not, or the broker could not be asked. To be called every few seconds: starving
        (messages waited, with room for them here, and none came between two calls) is the sign that the consumers
        of other instances cannot hide.
        """
        self._revive_keeper()
        session = self._session
        if not self._prefetch:
            return self.subscribed
        if self._stopped.is_set() or session is None or not session.is_alive:
            return False
        try:
            ready, consumers = await look(self._connection, self.queue, self._timeout)
        except BrokerError as error:
            _log.warning(events.CONSUMER_LOST, queue=self.queue, problem=f"could not be looked at: {error}")
            return False
        sight = Sight(session, session.delivered, ready)
        starved = (
            not self._takes_turns
            and self._seen is not None
            and sight.starved_since(self._seen, self._prefetch)
        )
        self._seen = sight
        if session.is_consuming and consumers > 0 and not starved:
            return True
        _log.error(
            events.CONSUMER_LOST, queue=self.queue, problem="silently", consumers=consumers, ready=ready
        )
        session.end()
        return False

    def _stop(self) -> None:
        self._stopped.set()
        self._changed.set()

    def _count(self, deliveries: list[Delivery]) -> None:
        again = sum(delivery.redelivered for delivery in deliveries)
        if again:
            metrics.DELIVERIES.add(again, self.queue, "yes")
        metrics.DELIVERIES.add(len(deliveries) - again, self.queue, "no")

    async def readers(self) -> int:
        """How many consumers of the queue are served: of a single active one the waiting ones are not counted.

        0 for a queue that does not exist. Raises BrokerError if it cannot be asked.
        """
        return (await look(self._connection, self.queue, self._timeout))[1]

    async def _keep(self, *, renewed: bool = True) -> None:
        failures = 0
        while True:
            session = self._session
            if session is not None:
                await session.ended.wait()
                self._session = None
                await session.close()
                self._prefetch = max(1, self._capacity - self._retired.held())
            if self._stopped.is_set():
                return
            try:
                self._session = await self._subscribe()
            except BrokerError as error:
                failures += 1
                _log.warning(events.CONSUMER_LOST, queue=self.queue, failures=failures, problem=str(error))
                await self._pause(failures)
                continue
            failures = 0
            self._changed.set()
            if renewed:
                metrics.CONSUMERS_RESTORED.add(1, self.queue)
                _log.info(events.CONSUMER_RESTORED, queue=self.queue)
            renewed = True
            if self._stopped.is_set():
                self._session.end()

    def _revive_keeper(self) -> None:
        keeper = self._keeper
        if keeper is None or not keeper.done() or self._stopped.is_set():
            return
        error = None if keeper.cancelled() else keeper.exception()
        _log.error(events.CONSUMER_LOST, queue=self.queue, problem="its keeper ended", exc_info=error)
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def _pause(self, failures: int) -> None:
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 10))
        try:
            async with asyncio.timeout(random.uniform(longest / 2, longest)):
                await self._stopped.wait()
        except TimeoutError:
            return

    async def _subscribe(self) -> Session:
        session = await open_session(self._connection, self.queue, self._changed, self._timeout)
        channel = session.channel
        try:
            await channel.basic_qos(prefetch_count=self._prefetch, timeout=self._timeout)
            await channel.basic_consume(
                self.queue, session.deliver, consumer_tag=session.consumer_tag, timeout=self._timeout
            )
        except ChannelNotFoundEntity as error:
            await self._restore_queue()
            raise BrokerError(f"queue {self.queue!r} does not exist: {error}") from None
        except CHANNEL_ERRORS as error:
            await session.close()
            raise_if_cancelled(error)
            raise BrokerError(f"queue {self.queue!r} cannot be consumed: {plain(error)}") from None
        return session

    async def _restore_queue(self) -> None:
        if self._topology is not None and self._keeper is not None:
            _log.error(events.QUEUE_RESTORED, queue=self.queue)
            await declare(self._connection, self._topology, timeout=self._timeout)

    async def _acknowledge(self, session: Session) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await session.acknowledge(self._ack)
        except CHANNEL_ERRORS as error:
            raise_if_cancelled(error)
            _log.warning(events.ACKNOWLEDGEMENT_LOST, queue=self.queue, problem=plain(error))
            session.end()
