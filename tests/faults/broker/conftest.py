from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest

from tests.integration.broker.room import TRANSPORTS, Room
from tests.servers import ServerSet
from triumvir.local import PrivateServers
from triumvir.local.broker import PrivateBroker


@pytest.fixture
def broker(private_servers: PrivateServers) -> PrivateBroker:
    """A broker that the test may kill, stop and starve."""
    return private_servers.broker


@pytest.fixture
def private_vhost(private_servers: PrivateServers) -> Iterator[str]:
    """The URL of a vhost of this test's own on the private broker."""
    with ServerSet.of(private_servers).vhost() as url:
        yield url
        private_servers.broker.start()


@pytest.fixture(params=TRANSPORTS)
async def private_room(private_vhost: str, request: pytest.FixtureRequest) -> AsyncIterator[Room]:
    async with AsyncExitStack() as stack:
        yield Room(private_vhost, request.param, stack)
