"""Names and values of the topology; what every supported RabbitMQ must accept."""

from __future__ import annotations

import pytest

from triumvir.broker import topology
from triumvir.broker.topology import (
    Argument,
    Binding,
    QueueSpec,
    Topology,
    agent_queue,
    agent_topology,
    client_of_status_queue,
    client_topology,
    core_topology,
    dead_queue,
    status_queue,
)
from triumvir.errors import ConfigurationError

QUORUM_3_10 = {
    "x-queue-type", "x-max-length", "x-max-length-bytes", "x-overflow", "x-message-ttl", "x-expires",
    "x-single-active-consumer", "x-delivery-limit", "x-dead-letter-exchange", "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
}  # fmt: skip
"""Arguments of quorum queues that RabbitMQ 3.10 and all of 4.x accept."""
CLASSIC = QUORUM_3_10 - {"x-delivery-limit", "x-dead-letter-strategy"}


def everything(*, quorum: bool = True) -> Topology:
    return (
        core_topology(quorum=quorum)
        + agent_topology("payments", quorum=quorum)
        + client_topology("shop-a", quorum=quorum)
        + client_topology("shop-a", "web-1", quorum=quorum)
    )


def arguments(queue: QueueSpec) -> dict[str, Argument]:
    return dict(queue.arguments)


@pytest.mark.parametrize("quorum", [True, False])
def test_f18_every_argument_is_known_to_the_oldest_and_the_newest_broker(quorum: bool) -> None:
    known, kind = (QUORUM_3_10, "quorum") if quorum else (CLASSIC, "classic")
    for queue in everything(quorum=quorum).queues:
        assert set(arguments(queue)) <= known, queue
        assert arguments(queue)["x-queue-type"] == kind


def test_f16_no_queue_expires() -> None:
    assert not [queue for queue in everything().queues if "x-expires" in arguments(queue)]


def test_every_quorum_queue_states_its_delivery_limit() -> None:
    limits = {queue.name: arguments(queue)["x-delivery-limit"] for queue in everything().queues}
    assert {limit for name, limit in limits.items() if not name.endswith(".dead")} == {100}
    assert min(int(limit) for name, limit in limits.items() if name.endswith(".dead")) >= 1_000_000


def test_f15_what_dead_letters_does_so_at_least_once_into_a_queue_that_is_bound() -> None:
    whole = everything()
    sources = [queue for queue in whole.queues if "x-dead-letter-exchange" in arguments(queue)]
    assert {queue.name for queue in sources} == {"orders", "scheduler.replies", "agent.payments"}
    for queue in sources:
        table = arguments(queue)
        assert (table["x-overflow"], table["x-dead-letter-strategy"]) == ("reject-publish", "at-least-once")
        dead = dead_queue(queue.name)
        assert table["x-dead-letter-routing-key"] == dead
        assert Binding(topology.DEAD_EXCHANGE, dead, dead) in whole.bindings


def test_clients_reach_the_orders_and_nothing_else() -> None:
    by_clients = [
        binding for binding in everything().bindings if binding.exchange == topology.ORDERS_EXCHANGE
    ]
    assert by_clients == [Binding("orders", "orders", "")]


def test_every_other_queue_is_reached_internally_by_its_name() -> None:
    whole = everything()
    internal = {binding for binding in whole.bindings if binding.exchange == topology.INTERNAL_EXCHANGE}
    names = {queue.name for queue in whole.queues} - {"orders"}
    assert internal == {Binding("triumvir", name, name) for name in names}


def test_every_binding_names_what_is_declared_with_it() -> None:
    whole = everything()
    exchanges, queues = (
        {exchange.name for exchange in whole.exchanges},
        {queue.name for queue in whole.queues},
    )
    assert all(binding.exchange in exchanges and binding.queue in queues for binding in whole.bindings)


def test_what_clients_may_fill_is_bounded() -> None:
    tables = {queue.name: arguments(queue) for queue in everything().queues}
    assert tables["orders"]["x-overflow"] == "reject-publish"
    for name in ("orders", "alerts", "scheduler.wake", "status.shop-a", "status.shop-a.web-1"):
        assert int(tables[name]["x-max-length"]) > 0
    assert tables["status.shop-a"]["x-message-ttl"] == 7 * 24 * 3600 * 1000


def test_a_topology_is_a_value() -> None:
    assert everything() == everything()
    assert hash(everything()) == hash(everything())
    assert core_topology() + core_topology() == core_topology()


@pytest.mark.parametrize(
    ("queue", "client"),
    [
        ("status.shop-a", "shop-a"),
        ("status.shop-a.web-1", "shop-a"),
        ("status.", None),
        ("status", None),
        ("status.shop-a.", None),
        ("status.shop-a.web.1", None),
        ("status.Shop", None),
        ("status.shop-a\n", None),
        ("status.shop-a.web\n", None),
        ("xstatus.shop-a", None),
        ("agent.shop-a", None),
        ("amq.direct", None),
        ("", None),
    ],
)
def test_the_client_of_a_status_queue(queue: str, client: str | None) -> None:
    assert client_of_status_queue(queue) == client


def test_names_of_queues() -> None:
    assert agent_queue("payments") == "agent.payments"
    assert status_queue("shop-a") == "status.shop-a"
    assert status_queue("shop-a", "web-1") == "status.shop-a.web-1"
    assert dead_queue("orders") == "orders.dead"


@pytest.mark.parametrize("name", ["", "a.b", "A", "a b", "x" * 41, "a\n", "*", "#"])
def test_a_name_that_could_reach_another_queue_is_refused(name: str) -> None:
    for call in (agent_queue, status_queue, lambda text: status_queue("shop-a", text)):
        with pytest.raises(ConfigurationError):
            call(name)
