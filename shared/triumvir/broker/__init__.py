"""RabbitMQ: the only room that knows the client library. Topology as values, declare, publish, consume, admin."""

from triumvir.broker.connection import Connection, connect
from triumvir.broker.consumer import Consumer
from triumvir.broker.declare import declare
from triumvir.broker.messages import Delivery, Outcome, OutMessage
from triumvir.broker.publisher import Publisher, Publishing
from triumvir.broker.topology import (
    ALERTS,
    DEAD_EXCHANGE,
    INTERNAL_EXCHANGE,
    ORDERS,
    ORDERS_EXCHANGE,
    REPLIES,
    WAKE,
    Binding,
    ExchangeSpec,
    QueueSpec,
    Topology,
    agent_queue,
    agent_topology,
    client_of_status_queue,
    client_topology,
    core_topology,
    dead_queue,
    queue_of_dead_letters,
    status_queue,
)

__all__ = [
    "ALERTS",
    "DEAD_EXCHANGE",
    "INTERNAL_EXCHANGE",
    "ORDERS",
    "ORDERS_EXCHANGE",
    "REPLIES",
    "WAKE",
    "Binding",
    "Connection",
    "Consumer",
    "Delivery",
    "ExchangeSpec",
    "OutMessage",
    "Outcome",
    "Publisher",
    "Publishing",
    "QueueSpec",
    "Topology",
    "agent_queue",
    "agent_topology",
    "client_of_status_queue",
    "client_topology",
    "connect",
    "core_topology",
    "dead_queue",
    "declare",
    "queue_of_dead_letters",
    "status_queue",
]
