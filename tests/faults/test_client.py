"""The client while the broker is killed and started again."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.client.door import Door, added_account
from triumvir.broker import connect
from triumvir.client import Client, Order, Submission
from triumvir.local import PrivateServers
from triumvir.settings import Settings

pytestmark = pytest.mark.faults


async def submitted(client: Client, numbers: range) -> list[Order]:
    submissions = [Submission("w", {"n": number}, str(number)) for number in numbers]
    told = [each async for each in client.submit_many(submissions)]
    assert [each.error for each in told] == [None] * len(told)
    return [each.order for each in told if each.order is not None]


async def test_a_client_outlives_a_killed_broker_and_loses_no_order_and_no_status(
    private_servers: PrivateServers, private_settings: Settings
) -> None:
    settings, broker = private_settings, private_servers.broker
    async with added_account(settings.broker_url, settings.management_url) as account:
        connection = await connect(settings.broker_url, "test door")
        door = Door(connection)
        await door.start()
        async with Client(account.url) as client:
            before = await submitted(client, range(50))
            results = [asyncio.create_task(order.result()) for order in before]
            await door.all_that_came(50)
            first = broker.pid
            await asyncio.to_thread(broker.kill)
            meanwhile = asyncio.create_task(submitted(client, range(50, 100)))
            await asyncio.to_thread(broker.start)
            assert broker.pid != first, "the broker was killed and is another process now"
            after = await meanwhile
            results += [asyncio.create_task(order.result()) for order in after]
            await door.all_that_came(50)
            for number in range(100):
                await door.tell(account, str(number), "completed", 1)
            assert await asyncio.gather(*results) == [None] * 100
        await door.close()
        await connection.close()
