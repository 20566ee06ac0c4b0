"""Exchanges, queues and bindings, as values. No queue name is spelled anywhere else.

Every argument is valid on RabbitMQ 3.10 and on 4.x. Limits are part of the declaration, so changing one here
needs the queue to be drained and deleted first; :func:`triumvir.broker.declare` says which and why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from triumvir.contracts.names import is_name
from triumvir.errors import ConfigurationError

ORDERS_EXCHANGE: Final = "orders"
"""Fanout, bound only to the queue :data:`ORDERS`; the one exchange that clients may write to."""
INTERNAL_EXCHANGE: Final = "triumvir"
"""Direct; everything internal, the routing key is the name of the queue."""
DEAD_EXCHANGE: Final = "triumvir.dead"
"""Direct; where the broker dead-letters to, the routing key is the name of the ``.dead`` queue."""

ORDERS: Final = "orders"
REPLIES: Final = "scheduler.replies"
WAKE: Final = "scheduler.wake"
ALERTS: Final = "alerts"

_DAY_MS: Final = 24 * 3600 * 1000
_DELIVERY_LIMIT: Final = 100
"""A fuse; what is poison is decided from counts kept in Postgres."""
_NEVER: Final = 1_000_000
"""The delivery limit of ``.dead`` queues: looking at evidence must not wear it out."""
_STATUS_QUEUE: Final = re.compile(r"status\.([^.]+)(?:\.([^.]+))?")

Argument = str | int
Arguments = tuple[tuple[str, Argument], ...]


@dataclass(frozen=True, slots=True)
class ExchangeSpec:
    """A durable exchange; ``kind`` is ``direct`` or ``fanout``."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A durable queue with its arguments, sorted by name."""

    name: str
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class Binding:
    """From ``exchange`` to ``queue`` by ``routing_key``."""

    exchange: str
    queue: str
    routing_key: str


@dataclass(frozen=True, slots=True)
class Topology:
    """What is declared together. Added up with ``+``; what is in both is declared once."""

    exchanges: tuple[ExchangeSpec, ...] = ()
    queues: tuple[QueueSpec, ...] = ()
    bindings: tuple[Binding, ...] = ()

    def __add__(self, other: Topology) -> Topology:
        return Topology(
            tuple(dict.fromkeys(self.exchanges + other.exchanges)),
            tuple(dict.fromkeys(self.queues + other.queues)),
            tuple(dict.fromkeys(self.bindings + other.bindings)),
        )


def agent_queue(agent: str) -> str:
    """The queue an agent takes its requests from."""
    return f"agent.{_checked(agent, 'agent')}"


def status_queue(client: str, instance: str | None = None) -> str:
    """The private queue of a client, or of one of its instances."""
    name = f"status.{_checked(client, 'client')}"
    return name if instance is None else f"{name}.{_checked(instance, 'instance')}"


def dead_queue(queue: str) -> str:
    """Where the dead letters of ``queue`` are kept."""
    return f"{queue}.dead"


def queue_of_dead_letters(dead: str) -> str:
    """The queue whose dead letters are kept in ``dead``."""
    return dead.removesuffix(".dead")


def client_of_status_queue(queue: str) -> str | None:
    """The client that owns ``queue``; None if it is not a status queue at all."""
    match = _STATUS_QUEUE.fullmatch(queue)
    if match is None or not all(is_name(part) for part in match.groups() if part is not None):
        return None
    return match[1]


def core_topology(*, quorum: bool = True) -> Topology:
    """What every installation has, whatever its agents and clients."""
    exchanges = (
        ExchangeSpec(ORDERS_EXCHANGE, "fanout"),
        ExchangeSpec(INTERNAL_EXCHANGE, "direct"),
        ExchangeSpec(DEAD_EXCHANGE, "direct"),
    )
    orders = _guarded(ORDERS, quorum, {"x-max-length": 100_000})
    wake = _queue(WAKE, quorum, {"x-message-ttl": 10_000, "x-max-length": 100, "x-overflow": "drop-head"})
    alerts = _queue(ALERTS, quorum, {"x-max-length": 100_000, "x-overflow": "drop-head"})
    return (
        Topology(exchanges, orders.queues, (Binding(ORDERS_EXCHANGE, ORDERS, ""), *_dead_bindings(ORDERS)))
        + _internal(_guarded(REPLIES, quorum).queues, _dead_bindings(REPLIES))
        + _internal((wake,))
        + _internal((alerts,))
    )


def agent_topology(agent: str, *, quorum: bool = True) -> Topology:
    """The queue of an agent and its dead letters."""
    name = agent_queue(agent)
    return _internal(_guarded(name, quorum).queues, _dead_bindings(name))


def client_topology(client: str, instance: str | None = None, *, quorum: bool = True) -> Topology:
    """The private status queue of a client: bounded, it forgets the oldest, a replay gives it the rest."""
    arguments: dict[str, Argument] = {
        "x-max-length": 100_000,
        "x-max-length-bytes": 64 * 1024 * 1024,
        "x-overflow": "drop-head",
        "x-message-ttl": 7 * _DAY_MS,
        "x-single-active-consumer": True,
    }
    return _internal((_queue(status_queue(client, instance), quorum, arguments),))


def _guarded(name: str, quorum: bool, limits: Mapping[str, Argument] | None = None) -> Topology:
    """A queue that loses nothing: full means refused, dead means kept in its ``.dead`` queue."""
    arguments: dict[str, Argument] = {
        "x-overflow": "reject-publish",
        "x-dead-letter-exchange": DEAD_EXCHANGE,
        "x-dead-letter-routing-key": dead_queue(name),
        **(limits or {}),
    }
    if quorum:
        arguments["x-dead-letter-strategy"] = "at-least-once"
    dead = _queue(dead_queue(name), quorum, {}, delivery_limit=_NEVER)
    return Topology(queues=(dead, _queue(name, quorum, arguments)))


def _queue(
    name: str, quorum: bool, arguments: Mapping[str, Argument], *, delivery_limit: int = _DELIVERY_LIMIT
) -> QueueSpec:
    kind: dict[str, Argument] = {"x-queue-type": "quorum" if quorum else "classic"}
    if quorum:
        kind["x-delivery-limit"] = delivery_limit
    return QueueSpec(name, tuple(sorted({**kind, **arguments}.items())))


def _internal(queues: Iterable[QueueSpec], extra: tuple[Binding, ...] = ()) -> Topology:
    bindings = tuple(
        Binding(INTERNAL_EXCHANGE, queue.name, queue.name)
        for queue in queues
        if not queue.name.endswith(".dead")
    )
    return Topology(queues=tuple(queues), bindings=bindings + extra)


def _dead_bindings(queue: str) -> tuple[Binding, ...]:
    """The broker dead-letters through its own exchange; the submitter keeps a copy of a refusal by the internal one."""
    dead = dead_queue(queue)
    return (Binding(DEAD_EXCHANGE, dead, dead), Binding(INTERNAL_EXCHANGE, dead, dead))


def _checked(name: str, what: str) -> str:
    if not is_name(name) or name != name.strip():
        raise ConfigurationError(f"{what} {name!r}: use 1 to 40 of a-z, 0-9 and -")
    return name
