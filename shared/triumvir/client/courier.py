"""Publishes for a client: again and again under the same ids, but not for ever."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from triumvir.broker import Outcome, OutMessage, Publisher
from triumvir.errors import BrokerError

ATTEMPTS: Final = 5
FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 3.0


class Courier:
    """Publishes through one publisher. ``user`` is the broker user, for the words of an error."""

    def __init__(self, publisher: Publisher, user: str) -> None:
        self._publisher = publisher
        self._user = user

    async def send(self, messages: Sequence[OutMessage]) -> list[BrokerError | None]:
        """None for each message that the broker confirmed, in the same order, else why it did not."""
        outcomes: list[Outcome] = [Outcome.UNKNOWN] * len(messages)
        pending = list(range(len(messages)))
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(_pause(attempt))
            answers = await self._publisher.publish([messages[index] for index in pending])
            for index, outcome in zip(pending, answers, strict=True):
                outcomes[index] = outcome
            pending = [index for index in pending if outcomes[index] in (Outcome.UNKNOWN, Outcome.REFUSED)]
            if not pending:
                break
        return [self._fault(message, outcome) for message, outcome in zip(messages, outcomes, strict=True)]

    def _fault(self, message: OutMessage, outcome: Outcome) -> BrokerError | None:
        if outcome is Outcome.CONFIRMED:
            return None
        exchange = f"the exchange {message.exchange!r}"
        words = {
            Outcome.RETURNED: f"no queue is bound to {exchange}; is this the vhost of Triumvir's services?",
            Outcome.REFUSED: f"RabbitMQ refused it {ATTEMPTS} times: its queue is full, or user {self._user!r}"
            f" may not write to {exchange}",
            Outcome.UNKNOWN: f"RabbitMQ did not confirm it in {ATTEMPTS} attempts, so it may or may not have"
            " arrived; sending it again under the same id is safe",
        }
        return BrokerError(f"{message.message_id}: {words[outcome]}")


def _pause(attempt: int) -> float:
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**attempt)
    return random.uniform(longest / 2, longest)
