"""A supervisor that is started now and then by a cron job, instead of running all the time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.integration.services.lab import WORKFLOWS
from tests.integration.services.workbench import Workbench, new_id
from tests.servers import ServerSet
from tests.services import Suite, started
from tests.waiting import eventually

LAB = "tests.integration.services.lab:lab"


@pytest.fixture(scope="module")
def unwatched(server_set: ServerSet) -> Iterator[Suite]:
    """Everything but a supervisor."""
    with started(server_set, ("submitter",), ("scheduler",), ("agent", LAB), workflows=WORKFLOWS) as suite:
        yield suite


@pytest.fixture
async def bench(unwatched: Suite) -> AsyncIterator[Workbench]:
    async with Workbench(unwatched, unwatched.add_client("shop")) as bench:
        yield bench


async def _one_pass(bench: Workbench, **settings: object) -> None:
    once = bench.suite.launch("supervisor", "--once", **settings)
    await eventually(lambda: once.exit_code() is not None, within=60, what="the end of the pass")
    assert once.exit_code() == 0, once.log.read_text()


async def test_one_pass_reopens_what_is_overdue_and_the_process_ends(bench: Workbench) -> None:
    order = await bench.submit("hasty", {"a": ["hang", "ok"]})
    overdue = "select no from orders where order_id = $1 and complete_by < now() - interval '0.2 s'"
    await eventually(lambda: bench.db.fetchval(overdue, order.order_id), what="an overdue order")
    assert (await bench.detail(order.order_id)).order.state == "processing", (
        "nobody but the supervisor re-opens"
    )
    await _one_pass(bench)
    assert await bench.told(order) == ["received", "retrying", "completed"]


async def test_one_pass_lifts_holds_and_tidies_up(bench: Workbench) -> None:
    order = await bench.submit("ghost")
    statuses = order.statuses()
    assert [(await anext(statuses)).status for _ in range(2)] == ["received", "held"]
    ghost = await asyncio.to_thread(bench.suite.start, "agent", "tests.integration.services.lab:ghost")
    await _one_pass(bench)
    assert (await anext(statuses)).status == "completed"
    await asyncio.to_thread(ghost.stop)
    await bench.db.execute(
        "update instances set lease_until = now() - interval '1 day' where service = 'submitter' "
    )
    await _one_pass(bench)
    assert await bench.db.fetchval("select count(*) from instances where service = 'supervisor'") == 0


async def test_one_pass_drains_the_dead_queues(bench: Workbench) -> None:
    sender, message_id = await bench.sender(), new_id()
    await sender.send(b"hello", message_id=message_id)
    await bench.letter(message_id)
    channel = await bench.internal()

    async def waiting() -> int:
        found = await channel.declare_queue("orders.dead", passive=True)
        return found.declaration_result.message_count or 0

    await eventually(waiting, what="the copy in the dead queue")
    await _one_pass(bench)
    assert await waiting() == 0


async def test_one_pass_purges_all_that_is_due_whatever_the_rate(bench: Workbench) -> None:
    orders = [await bench.submit("solo") for _ in range(3)]
    for order in orders:
        await order.result(timeout=60)
    ids = [order.order_id for order in orders]
    await bench.db.execute(
        "update orders set ended_at = ended_at - interval '2 d' where order_id = any($1)", ids
    )
    await bench.db.execute("update inbox set complete_by = now()")
    await _one_pass(bench)
    assert await _purged(bench, ids) == 0, "kept, as nobody says otherwise"
    await _one_pass(bench, retention_days=1, purge_rate=2)
    assert await _purged(bench, ids) == 3


async def _purged(bench: Workbench, ids: list[str]) -> int:
    found: int = await bench.db.fetchval(
        "select count(*) from orders where order_id = any($1) and purged_at is not null", ids
    )
    return found
