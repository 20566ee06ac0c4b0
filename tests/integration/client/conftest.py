from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.client.door import Account, Door, added_account
from triumvir.broker import connect
from triumvir.client import Client


@pytest.fixture
async def account(broker_url: str, management_url: str) -> AsyncIterator[Account]:
    """A client of this test's own."""
    async with added_account(broker_url, management_url) as account:
        yield account


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
