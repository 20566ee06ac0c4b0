"""More open orders than are allowed: the rest is refused in words, and nothing of it is left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.integration.services.lab import WORKFLOWS
from tests.integration.services.workbench import Workbench, new_id
from tests.servers import ServerSet
from tests.services import Suite, started

MOST = 5


@pytest.fixture(scope="module")
def door(server_set: ServerSet) -> Iterator[Suite]:
    """A submitter alone, so that no order ever ends; it takes one message at a time, so that the bound is exact."""
    with started(
        server_set, ("submitter",), workflows=WORKFLOWS, max_open_orders=MOST, batch_limit=1
    ) as suite:
        yield suite


@pytest.fixture
async def bench(door: Suite) -> AsyncIterator[Workbench]:
    async with Workbench(door, door.add_client("shop")) as bench:
        yield bench


async def test_f42_what_finds_no_room_is_refused_and_leaves_nothing(bench: Workbench) -> None:
    sender = await bench.sender()
    ids = [new_id() for _ in range(2 * MOST)]
    sent = {key: await sender.send({"order_id": key, "workflow": "solo", "payload": {}}) for key in ids}
    for order_id in ids[:MOST]:
        await sender.hears(order_id=order_id, status="received")
    for order_id in ids[MOST:]:
        told = await sender.hears(submission=sent[order_id], status="rejected")
        assert "full: order: 5 orders are open already; submit it again later" in told["detail"]
    assert await bench.db.fetchval("select count(*) from orders") == MOST
    assert await bench.db.fetchval("select count(*) from order_documents") == MOST
    await sender.send({"order_id": ids[0], "workflow": "solo", "payload": {}}, message_id="known")
    other = await sender.send({"order_id": ids[0], "workflow": "solo", "payload": {"x": 1}})
    assert (await sender.hears(submission=other))["detail"].startswith("conflict")
    await sender.hears_times(
        2, order_id=ids[0], sequence=1
    )  # an order that is known is answered, full or not
    await bench.db.execute("update admission set open = open - 1")
    await sender.send({"order_id": ids[-1], "workflow": "solo", "payload": {"changed": True}})
    await sender.hears(order_id=ids[-1], status="received")
