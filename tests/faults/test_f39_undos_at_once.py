"""F39, undos at the same time: agents and schedulers die between an undo and its record, again and again."""

from __future__ import annotations

import signal
from collections import Counter
from typing import Final

import pytest

from tests.faults.agents import FANS
from tests.faults.cluster import Cluster
from triumvir.store.operators import apply_workflow
from triumvir.testing import Call, Effect
from triumvir.workflow import Workflow

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ORDERS: Final = 12
DEATHS: Final = {3: "agent", 8: "scheduler", 14: "agent", 19: "scheduler", 25: "agent", 30: "scheduler"}
"""Who dies once so many undos have had their effect: before anybody was answered."""


@pytest.mark.parametrize("workflow", FANS, ids=lambda workflow: workflow.undo_order)
async def test_f39_undos_at_the_same_time_have_one_effect_each_whoever_dies_before_the_record(
    cluster: Cluster, workflow: Workflow
) -> None:
    await cluster.start()
    await apply_workflow(cluster.database, workflow)
    cluster.load.workflow = workflow.name
    died: list[str] = []
    seen = Counter[str]()

    async def kill(call: Call) -> None:
        if call.direction == "undo" and seen.total() < max(DEATHS):
            seen[call.key] += 1
            if victim := DEATHS.get(seen.total()):
                died.append(victim)
                cluster.services[victim].send(signal.SIGKILL)

    cluster.downstream.after = kill
    orders = [
        await cluster.load.submit_one(f"fan-{n}", {"seal": {"fail": "permanent"}}) for n in range(ORDERS)
    ]
    await cluster.assert_sound()
    assert died == list(DEATHS.values())
    assert {order.key: (await cluster.states())[order.key] for order in orders} == {
        order.key: "compensated" for order in orders
    }
    undone = [effect for effect in (await cluster.ledger()).effects if effect.direction == "undo"]
    assert Counter((effect.order, effect.step) for effect in undone) == {
        (order.key, step): 1 for order in orders for step in ("reserve", "book", "charge")
    }
    assert len({effect.key for effect in undone}) == len(undone)
    if workflow.undo_order == "by-rank":
        assert {first(undone, order.key) for order in orders} == {"book"}


def first(undone: list[Effect], key: str) -> str:
    """The step of an order that was undone first."""
    return next(effect.step for effect in undone if effect.order == key)
