"""F57: an operation blocks the event loop of its agent: no heartbeat, no renewal of its lease, no time-out."""

from __future__ import annotations

from typing import Final

import pytest

from tests.faults.cluster import Cluster
from tests.faults.pressure import said
from tests.waiting import eventually, eventually_true
from triumvir.broker.connection import HEARTBEAT
from triumvir.telemetry import events

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SECONDS: Final = 4.5 * HEARTBEAT
"""Longer than the broker waits for a heartbeat, shorter than the watchdog for the loop."""


async def test_f57_an_agent_whose_loop_is_blocked_loses_its_lease_and_others_finish_its_step(
    cluster: Cluster,
) -> None:
    await cluster.start()
    blocked = cluster.services["agent"]
    order = await cluster.load.submit_one("blocking", {"charge": {"block": SECONDS}})
    await eventually(lambda: _charges(cluster) == 1, what="the call after which it blocks")
    await eventually_true(lambda: _lapsed(cluster, blocked.pid), what="the end of its lease")
    await (await cluster.add("agent", "second agent")).ready()
    await order.result(timeout=120)
    assert await _lapsed(cluster, blocked.pid), "it was still blocked"
    await cluster.load.submit(20, "good", "refused")
    await eventually(
        lambda: said(cluster, "agent", events.BROKER_LOST), within=300, what="the loss of its connection"
    )
    await eventually_true(lambda: _renewed(cluster, blocked.pid), within=120, what="a new lease of it")
    await cluster.assert_sound(within=240)
    assert blocked.exits == []
    assert _charges(cluster) == 2, "called again under the same key"
    keys = {
        call.key for call in cluster.downstream.calls() if call.order == order.key and call.step == "charge"
    }
    assert len(keys) == 1


def _charges(cluster: Cluster) -> int:
    calls = cluster.downstream.calls()
    return sum(call.order.endswith("/blocking") and call.step == "charge" for call in calls)


async def _lapsed(cluster: Cluster, pid: int) -> bool:
    query = "select coalesce(bool_and(lease_until < clock_timestamp()), true) from instances where pid = $1"
    return bool(await cluster.database.fetchval(query, pid))


async def _renewed(cluster: Cluster, pid: int) -> bool:
    return not await _lapsed(cluster, pid)
