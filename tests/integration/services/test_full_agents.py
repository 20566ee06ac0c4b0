"""The agents of all first steps are full, for long: what was begun goes on at the agents that are free."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest

from tests.integration.services.workbench import Workbench
from tests.servers import ServerSet
from tests.services import Suite, started
from tests.waiting import eventually
from triumvir.workflow import Step, Workflow

_LAB = "tests.integration.services.lab"
PAIR = Workflow(
    "pair",
    1,
    [
        Step("a", agent="ghost", operation="a", undo="un-a", complete_within=timedelta(minutes=2)),
        Step("b", agent="lab", operation="b", undo="un-b", complete_within=timedelta(seconds=2)),
    ],
)


@pytest.fixture(scope="module")
def pair(server_set: ServerSet) -> Iterator[Suite]:
    with started(
        server_set,
        ("submitter",), ("scheduler",), ("supervisor",), ("agent", f"{_LAB}:lab"),
        workflows=[PAIR],
    ) as suite:  # fmt: skip
        suite.start("agent", f"{_LAB}:ghost", slots=1)
        yield suite


@pytest.fixture
async def pair_bench(pair: Suite) -> AsyncIterator[Workbench]:
    async with Workbench(pair, pair.add_client("shop")) as bench:
        yield bench


async def test_a_later_step_is_called_again_while_no_new_order_can_be_sent(pair_bench: Workbench) -> None:
    bench = pair_bench
    begun = await bench.submit("pair", {"b": ["hang", "ok"]})
    await bench.until_called(begun.order_id, "b")
    new = [await bench.submit("pair", {"a": "gate"}) for _ in range(8)]
    sent = "select count(*) = 2 from orders where state = 'processing' and step = 1"
    await eventually(lambda: bench.db.fetchval(sent), what="a full agent")
    assert (await bench.until_state(begun.order_id, "processed", within=60)).order.attempt == 2
    assert await bench.db.fetchval(sent), "it was full all the time"
    untouched = "select count(*) from orders where state = 'pending' and held_by is null and history = 1"
    assert await bench.db.fetchval(untouched) >= 5, "new orders are not claimed only to be held"
    for order in new:
        bench.open_gate(order.order_id)
    for order in new:
        assert await order.result(timeout=60) is not None
