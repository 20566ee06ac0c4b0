from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.integration.broker.proxy import Proxy, proxied
from tests.integration.broker.room import TRANSPORTS, Room
from triumvir.settings import Transport


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> Transport:
    found: Transport = request.param
    return found


@pytest.fixture
async def room(broker_url: str, transport: Transport) -> AsyncIterator[Room]:
    """A vhost of this test's own, seen through one transport."""
    async with AsyncExitStack() as stack:
        yield Room(broker_url, transport, stack)


@pytest.fixture
async def proxy(broker_url: str) -> AsyncIterator[Proxy]:
    """A way to this test's vhost that can be broken."""
    async with proxied(broker_url) as running:
        yield running
