"""Requests that are acknowledged as soon as they are begun, since the broker would not wait for their end: their inbox
row is the outbox of the reply.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import orjson

from triumvir.agent.calling import Failure, Outcome, Success
from triumvir.contracts.messages import StepCompensate, StepExecute, StepRequest
from triumvir.settings import Settings
from triumvir.store.statements import Row

_KEPT: Final = ("client", "order_id", "step", "lock", "attempt")
"""What a reply says of its request and the row does not have."""


@dataclass(frozen=True, slots=True)
class EarlyAcks:
    """Which requests are acknowledged early: those with more than ``over`` to go. ``lease``: so long whoever called, or
    sweeps, has the reply to itself.
    """

    over: timedelta = timedelta(minutes=15)
    lease: timedelta = timedelta(seconds=10)

    @classmethod
    def of(cls, settings: Settings) -> EarlyAcks:
        """Half of what the broker waits is for the queue in this process, for a commit and for the reply."""
        return cls(settings.consumer_timeout / 2, settings.outbox_lease)

    def take(self, request: StepRequest) -> bool:
        """By the time that was left when it was sent: never less than what is left now."""
        return request.attempts_allowed > 0 and request.time_left_ms > self.over / timedelta(milliseconds=1)

    def address(self, request: StepRequest) -> str | None:
        """What the row keeps of such a request for its reply; None if it is acknowledged after the reply."""
        if not self.take(request):
            return None
        return orjson.dumps({name: getattr(request, name) for name in _KEPT}).decode()


@dataclass(slots=True)
class InHand:
    """A delivery that is being worked on. ``let_go`` acknowledges it early, once."""

    let_go: Callable[[], Awaitable[None]]
    early: bool = False


@dataclass(frozen=True, slots=True)
class DueReply:
    """A reply that whoever called did not get out. ``request`` has what a reply says of it, and no more."""

    request: StepRequest
    outcome: Outcome | None
    calls: int
    trace: str


def due_reply(row: Row) -> DueReply:
    """A row as the sweep took it. Its outcome is None if a later attempt of an agent of the release before has the row:
    that one has its delivery.
    """
    kept: dict[str, Any] = orjson.loads(row["early"])
    kept["lock"] = UUID(kept["lock"])
    message = StepCompensate if row["direction"] == "undo" else StepExecute
    request: StepRequest = message.model_construct(
        order_no=row["no"], step_no=row["step_no"], fence=row["fence"], **kept
    )
    return DueReply(request, _outcome(row), row["calls"], row["trace"] or "")


def _outcome(row: Row) -> Outcome | None:
    if row["early_fence"] != row["fence"] or row["state"] not in ("succeeded", "failed"):
        return None
    if row["state"] == "succeeded":
        return Success(row["reply"])
    return Failure(**orjson.loads(row["reply"]))
