"""Messages as the broker room hands them in and out; nothing of a client library shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum


@dataclass(frozen=True, slots=True)
class OutMessage:
    """One message to publish: persistent, mandatory, confirmed."""

    exchange: str
    routing_key: str
    message_id: str
    type: str
    correlation_id: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    reply_to: str | None = None
    user_id: str | None = None


class Outcome(Enum):
    """What became of a publish. Only CONFIRMED means that the broker has it."""

    CONFIRMED = "confirmed"
    RETURNED = "returned"
    """No queue was bound for it."""
    REFUSED = "refused"
    """Nacked by the broker (a full queue), or too large or wrong to be sent at all."""
    UNKNOWN = "unknown"
    """Timeout, lost channel or connection: it may or may not have arrived; send it again."""


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """One delivery. ``channel`` is the identity of the channel it came by; its tag dies with that channel."""

    queue: str
    body: bytes
    message_id: str | None
    type: str | None
    correlation_id: str | None
    user_id: str | None
    reply_to: str | None
    content_type: str | None
    headers: Mapping[str, object]
    redelivered: bool
    timestamp: datetime | None
    tag: int
    channel: object
