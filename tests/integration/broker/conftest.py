from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.integration.broker.proxy import Proxy, proxied
from tests.integration.broker.room import IMPLEMENTATIONS, Implementation, Room


@pytest.fixture(params=IMPLEMENTATIONS, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    found: Implementation = request.param
    return found


@pytest.fixture
async def room(broker_url: str, implementation: Implementation) -> AsyncIterator[Room]:
    """A vhost of this test's own, seen through one implementation."""
    async with AsyncExitStack() as stack:
        yield Room(broker_url, implementation, stack)


@pytest.fixture
async def proxy(broker_url: str) -> AsyncIterator[Proxy]:
    """A way to this test's vhost that can be broken."""
    async with proxied(broker_url) as running:
        yield running
