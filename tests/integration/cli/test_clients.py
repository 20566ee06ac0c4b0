"""`triumvir clients` on a real broker: what is made, and what such a client may and may not do."""

from __future__ import annotations

import urllib.parse
from functools import partial

import pytest

from tests.integration.cli.conftest import Triumvir
from tests.servers import blocking
from triumvir.broker import (
    INTERNAL_EXCHANGE,
    ORDERS_EXCHANGE,
    Consumer,
    Outcome,
    OutMessage,
    Publisher,
    connect,
    status_queue,
)
from triumvir.errors import BrokerError
from triumvir.settings import Settings


async def published(url: str, exchange: str, routing_key: str = "", user: str | None = None) -> Outcome:
    connection = await connect(url, "test")
    message = OutMessage(exchange, routing_key, "1", "order.submit.v1", "1", b"{}", user_id=user)
    publisher = Publisher(connection)
    (outcome,) = await publisher.publish([message])
    await publisher.close()
    await connection.close()
    return outcome


async def consumed(url: str, queue: str) -> None:
    connection = await connect(url, "test")
    consumer = Consumer(connection, queue, 1)
    try:
        await consumer.start()
    finally:
        await consumer.close()
        await connection.close()


def test_a_new_client_may_submit_and_read_its_own_statuses(triumvir: Triumvir, client_name: str) -> None:
    made = triumvir("clients", "add", client_name, "--json")
    assert (made["client"], made["status_queue"]) == (client_name, status_queue(client_name))
    assert made["password"] in made["url"]
    assert blocking(lambda: published(made["url"], ORDERS_EXCHANGE, user=client_name)) is Outcome.CONFIRMED
    blocking(lambda: consumed(made["url"], made["status_queue"]))


def test_a_client_may_do_nothing_else(triumvir: Triumvir, client_name: str) -> None:
    url = triumvir("clients", "add", client_name, "--json")["url"]
    for exchange, key in ((INTERNAL_EXCHANGE, status_queue(client_name)), ("", "orders"), ("amq.fanout", "")):
        assert blocking(partial(published, url, exchange, key)) is Outcome.REFUSED
    assert blocking(lambda: published(url, ORDERS_EXCHANGE, user="guest")) is Outcome.REFUSED
    for queue in ("orders", "alerts", f"status.{client_name}x"):
        with pytest.raises(BrokerError):
            blocking(partial(consumed, url, queue))


def test_a_client_that_exists_is_refused_in_words(triumvir: Triumvir, client_name: str) -> None:
    url = triumvir("clients", "add", client_name, "--json")["url"]
    assert "exists already; its password cannot be shown again" in triumvir(
        "clients", "add", client_name, code=1
    )
    assert blocking(lambda: published(url, ORDERS_EXCHANGE, user=client_name)) is Outcome.CONFIRMED


def test_an_instance_of_a_client_gets_a_queue_and_the_password_stays(
    triumvir: Triumvir, client_name: str
) -> None:
    url = triumvir("clients", "add", client_name, "--json")["url"]
    made = triumvir("clients", "add", client_name, "--instance", "two", "--json")
    assert made == {
        "client": client_name, "status_queue": status_queue(client_name, "two"), "password": None, "url": None
    }  # fmt: skip
    blocking(lambda: consumed(url, made["status_queue"]))


def test_a_user_that_is_no_client_is_left_alone(triumvir: Triumvir, settings: Settings) -> None:
    administrator = urllib.parse.urlsplit(settings.broker_url).username or "guest"
    assert "is no Triumvir client; choose another name" in triumvir("clients", "add", administrator, code=1)


def test_clients_are_listed_with_their_queues(triumvir: Triumvir, client_name: str) -> None:
    triumvir("clients", "add", client_name, "--instance", "two")
    (listed,) = triumvir("clients", "list", "--json")
    assert listed["client"] == client_name
    assert [queue["name"] for queue in listed["queues"]] == [
        status_queue(client_name), status_queue(client_name, "two")
    ]  # fmt: skip
    assert client_name in triumvir("clients", "list")
