"""One suite of services for all tests here, each with orders of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.integration.services.lab import BOOKINGS, WORKFLOWS
from tests.integration.services.workbench import Workbench, execute
from tests.servers import ServerSet
from tests.services import Account, Suite, started


@pytest.fixture(scope="package")
def suite(server_set: ServerSet) -> Iterator[Suite]:
    """Submitter, scheduler, supervisor, and the agent ``lab``."""
    with started(
        server_set,
        ("submitter",),
        ("scheduler",),
        ("supervisor",),
        ("agent", "tests.integration.services.lab:lab"),
        workflows=WORKFLOWS,
    ) as suite:
        execute(suite, BOOKINGS)
        yield suite


@pytest.fixture(scope="package")
def account(suite: Suite) -> Account:
    """The client that most tests are."""
    return suite.add_client("shop")


@pytest.fixture
async def bench(suite: Suite, account: Account) -> AsyncIterator[Workbench]:
    async with Workbench(suite, account) as bench:
        yield bench
