"""F40: what fails or hangs for ever is called no more often than was planned, counted where the calls arrive."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

import pytest

from tests.faults.cluster import Cluster
from tests.house.source import ROOT
from tests.waiting import eventually
from triumvir.errors import OrderCompensated, OrderCompensationFailed
from triumvir.testing import Call

KILLED = ("agent", "scheduler", "supervisor", "agent")
ALWAYS = {"fail": "transient", "times": 1000}


async def planned(cluster: Cluster) -> dict[str, Any]:
    """What ``triumvir plan`` prints for the workflow of the cluster."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "triumvir.cli", "plan", "tests.faults.agents:TRADE", "--json",
        cwd=ROOT, env={**os.environ, **cluster.env}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    printed, _ = await process.communicate()
    assert process.returncode == 0
    plan: dict[str, Any] = json.loads(printed)
    return plan


def calls_of(cluster: Cluster, order: str, step: str, direction: str = "do") -> list[Call]:
    return [
        c for c in cluster.downstream.calls() if (c.order, c.step, c.direction) == (order, step, direction)
    ]


async def kill_at_each_call(cluster: Cluster, order: str) -> None:
    """After the first call one process is killed, after the second another, and so on while there are calls."""
    for calls, victim in enumerate(KILLED, start=1):

        def is_called(least: int = calls) -> bool:
            return len(calls_of(cluster, order, "reserve")) >= least

        try:
            await eventually(is_called, within=20)
        except AssertionError:
            return
        cluster.services[victim].send(signal.SIGKILL)


async def why_of(cluster: Cluster, order: str) -> str:
    """All that the history of an order says."""
    rows = await cluster.database.fetch(
        "select t.why from transitions t join orders o on o.no = t.no where o.client || '/' || o.order_id = $1"
        " order by t.n",
        order,
    )
    return "\n".join(row["why"] for row in rows)


async def test_f40_a_service_that_always_fails_gets_the_planned_calls(cluster: Cluster) -> None:
    cluster.tune(retry_budget="4")
    await cluster.start()
    order = await cluster.load.submit_one("failing", {"reserve": ALWAYS})
    with pytest.raises(OrderCompensated):
        await order.result(timeout=90)
    plan = await planned(cluster)
    forward = plan["steps"][0]["forward"]
    assert (forward["calls"], forward["binds"]) == (5, "retry-budget")
    assert len(calls_of(cluster, order.key, "reserve")) == forward["calls"]
    assert "the retry budget of the order is spent (4 calls" in await why_of(cluster, order.key)
    await cluster.assert_sound(ends=False)


@pytest.mark.slow
async def test_f40_kills_add_no_calls_to_a_service_that_always_fails(cluster: Cluster) -> None:
    cluster.tune(retry_budget="4")
    await cluster.start()
    order = await cluster.load.submit_one("failing", {"reserve": ALWAYS})
    await kill_at_each_call(cluster, order.key)
    with pytest.raises(OrderCompensated):
        await order.result(timeout=90)
    plan = await planned(cluster)
    assert 1 < len(calls_of(cluster, order.key, "reserve")) <= plan["steps"][0]["forward"]["calls"]
    await cluster.assert_sound(ends=False)


@pytest.mark.slow
async def test_f40_kills_add_no_calls_to_a_service_that_always_hangs(cluster: Cluster) -> None:
    cluster.tune(retry_budget="2", step_timeout="2")
    await cluster.start()
    order = await cluster.load.submit_one("hanging", {"reserve": {"slow": 1000}})
    await kill_at_each_call(cluster, order.key)
    with pytest.raises(OrderCompensated):
        await order.result(timeout=120)
    plan = await planned(cluster)
    assert 1 < len(calls_of(cluster, order.key, "reserve")) <= plan["steps"][0]["forward"]["calls"] == 3
    await cluster.assert_sound(ends=False)


@pytest.mark.slow
async def test_f40_an_undo_that_always_fails_gets_the_calls_of_its_own_budget(cluster: Cluster) -> None:
    cluster.tune(undo_retry_budget="2")
    await cluster.start()
    ask = {"charge": {"fail": "permanent"}, "undo book": ALWAYS}
    order = await cluster.load.submit_one("stuck", ask)
    with pytest.raises(OrderCompensationFailed, match="the retry budget of this undo is spent"):
        await order.result(timeout=90)
    plan = await planned(cluster)
    assert len(calls_of(cluster, order.key, "book", "undo")) == plan["steps"][1]["undo"]["calls"] == 3
    await cluster.assert_sound(ends=False)
