"""A look at a queue from outside, and what two looks say of a consumer."""

from __future__ import annotations

from dataclasses import dataclass

from aiormq.exceptions import ChannelNotFoundEntity

from triumvir.broker.address import plain
from triumvir.broker.connection import CHANNEL_ERRORS, Connection, close_channel, raise_if_cancelled
from triumvir.broker.session import Session
from triumvir.errors import BrokerError


async def look(connection: Connection, queue: str, timeout: float) -> tuple[int, int]:
    """Ready messages and consumers of a queue, asked on a channel of its own: a refusal closes it. Both 0 if it does
    not exist. Raises BrokerError if it cannot be asked.
    """
    channel = await connection.channel(confirms=False, timeout=timeout)
    try:
        found = await channel.queue_declare(queue, passive=True, timeout=timeout)
        return found.message_count or 0, found.consumer_count or 0
    except ChannelNotFoundEntity:
        return 0, 0
    except CHANNEL_ERRORS as error:
        raise_if_cancelled(error)
        raise BrokerError(plain(error)) from None
    finally:
        await close_channel(channel)


@dataclass(frozen=True, slots=True)
class Sight:
    """What one look at the queue showed: deliveries so far by ``session``, messages ready in the queue."""

    session: Session
    delivered: int
    ready: int

    def starved_since(self, before: Sight, prefetch: int) -> bool:
        """Whether messages waited at both looks, with room for them here, and none came in between."""
        return (
            before.session is self.session
            and before.delivered == self.delivered
            and before.ready > 0
            and self.ready > 0
            and self.session.unsettled < prefetch
        )
