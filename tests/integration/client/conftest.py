from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator

import pytest

from tests.integration.client.door import Account, Door
from triumvir.broker import client_topology, connect, core_topology, declare
from triumvir.broker.admin import BrokerAdmin
from triumvir.client import Client


@pytest.fixture
async def account(broker_url: str, management_url: str) -> AsyncIterator[Account]:
    """A client with its permissions and its queue, as `triumvir clients add` makes it."""
    vhost = urllib.parse.urlsplit(broker_url).path.removeprefix("/")
    name = f"shop-{vhost.removeprefix('test-')}"
    connection = await connect(broker_url, "test setup")
    await declare(connection, core_topology(quorum=False) + client_topology(name, quorum=False))
    await connection.close()
    async with BrokerAdmin(management_url) as admin:
        await admin.add_client(vhost, name, "pa:ss/@%")
        place = urllib.parse.urlsplit(broker_url)
        secret = urllib.parse.quote("pa:ss/@%", safe="")
        url = place._replace(netloc=f"{name}:{secret}@{place.hostname}:{place.port}").geturl()
        yield Account(name, url)
        await admin.remove_client(name)


@pytest.fixture
async def door(broker_url: str, account: Account) -> AsyncIterator[Door]:
    connection = await connect(broker_url, "test door")
    door = Door(connection)
    await door.start()
    yield door
    await door.close()
    await connection.close()


@pytest.fixture
async def client(account: Account) -> AsyncIterator[Client]:
    async with Client(account.url) as client:
        yield client
