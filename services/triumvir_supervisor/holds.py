"""Lifting holds whose reason is gone: the agent is back, or offers the operation; the orders database answers; what
operators paused goes on.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from triumvir.lifecycle import PAUSED
from triumvir.runtime import hints
from triumvir.runtime.relay import Relay
from triumvir.store import pauses
from triumvir.store.documents import AWAY, OrdersDatabase
from triumvir.store.pauses import REASON, Paused
from triumvir.store.session import Session
from triumvir.store.statements import Row, statement
from triumvir.telemetry.logs import get_logger

RELEASED_PER_SLOT: Final = 2
LEAST_RELEASED: Final = 50
"""Times the above, where agents may be absent, which is found by claiming: once the orders database is back, or a pause
is over.
"""
_OF_AGENT: Final = f"{REASON}agent:"
log = get_logger(__name__)


class Holds:
    """One look at the held orders. Released in a ramp, so that a returning agent is not flooded."""

    def __init__(self, session: Session, relay: Relay, documents: OrdersDatabase | None = None) -> None:
        self._documents = documents
        self._session = session
        self._relay = relay

    async def release(self) -> int:
        """Lifts the holds that can be lifted; from how many orders."""
        lifted = 0
        async with self._session.connection() as connection:
            reasons = [row["held_by"] for row in await statement("held_reasons").rows(connection)]
            if not reasons:
                return 0
            capacity = _capacity(await statement("live_instances").rows(connection))
            _count_ended_pauses(capacity, reasons, await pauses.read(connection))
            if AWAY in reasons and self._documents is not None and await self._documents.ready() is None:
                capacity[AWAY] = max(capacity.total(), LEAST_RELEASED)
            for reason in reasons:
                if most := RELEASED_PER_SLOT * capacity[reason]:
                    lifted += len(await statement("release_held").rows(connection, reason=reason, most=most))
        if lifted:
            await self._relay.send([hints.wake(released=True)], None)
        return lifted


def _count_ended_pauses(capacity: Counter[str], reasons: list[str], paused: Paused) -> None:
    """As many as their agents can take, or all agents for a workflow; a few at a time if no agent is live."""
    whole = capacity.total()
    for reason in reasons:
        if reason.startswith(REASON) and reason != PAUSED and reason not in paused.reasons:
            of_agent = capacity[reason.removeprefix(REASON)] if reason.startswith(_OF_AGENT) else whole
            capacity[reason] = of_agent or LEAST_RELEASED


def _capacity(instances: list[Row]) -> Counter[str]:
    """Slots by the reason whose absence they end."""
    slots: Counter[str] = Counter()
    for row in instances:
        for operation in row["operations"]:
            slots[f"operation:{operation}"] += row["slots"]
        for agent in {operation.split("/")[0] for operation in row["operations"]}:
            slots[f"agent:{agent}"] += row["slots"]
    return slots
