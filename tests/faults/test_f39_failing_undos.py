"""F39: compensation fails for good, is cut off, or is repeated."""

from __future__ import annotations

import signal

import pytest

from tests.faults.cluster import Cluster
from triumvir.errors import OrderCompensated, OrderCompensationFailed
from triumvir.testing import Call

pytestmark = pytest.mark.slow


async def test_f39_an_undo_that_fails_for_ever_is_visible_and_skips_nothing(cluster: Cluster) -> None:
    await cluster.start()
    ask = {"charge": {"fail": "permanent"}, "undo book": {"fail": "transient", "times": 1000}}
    order = await cluster.load.submit_one("stuck", ask)
    with pytest.raises(OrderCompensationFailed, match="undo of book failed"):
        await order.result(timeout=60)
    await cluster.load.submit(10)
    await cluster.assert_sound()
    assert (await cluster.states())[order.key] == "compensation_failed"
    assert order.key in cluster.alerts
    undone = [
        call.step
        for call in cluster.downstream.calls()
        if call.order == order.key and call.direction == "undo"
    ]
    settings = cluster.settings
    assert undone == ["book"] * settings.calls_per_request * (settings.max_failures + 1), (
        "never the one before it"
    )


@pytest.mark.parametrize("step", ["reserve", "book"])
async def test_f39_an_undo_cut_off_before_it_is_recorded_has_one_effect(cluster: Cluster, step: str) -> None:
    await cluster.start()
    agent = cluster.services["agent"]
    killed: list[Call] = []

    async def kill(call: Call) -> None:
        if call.direction == "undo" and call.step == step and not killed:
            killed.append(call)
            agent.send(signal.SIGKILL)

    cluster.downstream.after = kill
    order = await cluster.load.submit_one("cut-off", {"charge": {"fail": "permanent"}})
    with pytest.raises(OrderCompensated):
        await order.result(timeout=60)
    assert await agent.dies(-signal.SIGKILL)
    await cluster.load.submit(8)
    await cluster.assert_sound()
    effects = [
        e.step for e in (await cluster.ledger()).effects if e.order == order.key and e.direction == "undo"
    ]
    assert effects == ["book", "reserve"]
