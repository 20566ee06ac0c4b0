"""An agent whose operations go on when their time is over: it says so, it ends, and its other orders lose nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.integration.services.lab import WORKFLOWS
from tests.integration.services.workbench import Workbench
from tests.servers import ServerSet
from tests.services import Suite, started
from tests.waiting import eventually

GHOST = "tests.integration.services.lab:ghost"
WATCHDOG = 70
SLOTS = 2


@pytest.fixture(scope="module")
def suite(server_set: ServerSet) -> Iterator[Suite]:
    """One of its own: some of its services end on purpose."""
    services = (("submitter",), ("scheduler",), ("supervisor",))
    with started(server_set, *services, workflows=WORKFLOWS) as suite:
        yield suite


@pytest.fixture
async def bench(suite: Suite) -> AsyncIterator[Workbench]:
    async with Workbench(suite, suite.add_client("stuck")) as bench:
        yield bench


@pytest.mark.parametrize("workflow", ["stall", "refuse-to-end"])
async def test_an_agent_whose_slots_are_all_stuck_ends_and_its_neighbours_burn_nothing(
    bench: Workbench, workflow: str
) -> None:
    agent = await asyncio.to_thread(bench.suite.start, "agent", GHOST, slots=SLOTS, watchdog_timeout=8)
    stuck = [await bench.submit(workflow, {"stalls": True}) for _ in range(SLOTS)]
    for order in stuck:
        await bench.until_called(order.order_id, workflow)
    await eventually(
        lambda: f"{SLOTS} calls went on when their time was over" in agent.get("/readyz")[1],
        what="the agent to say that it is stuck",
    )
    fine = await bench.submit(workflow)
    await eventually(lambda: agent.exit_code() == WATCHDOG, within=60, what="the watchdog to end the agent")
    healthy = await asyncio.to_thread(bench.suite.start, "agent", GHOST, slots=2 * SLOTS)
    assert (await bench.told(fine))[-1] == "completed"
    assert (await bench.detail(fine.order_id)).order.failure_count == 0
    assert len(bench.calls(fine.order_id)) == 1
    for order in stuck:
        await order.cancel()
        await bench.until_state(order.order_id, "compensated", "cancelled", "error", within=60)
    await asyncio.to_thread(healthy.stop)
