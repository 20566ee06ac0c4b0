"""F37: a process sleeps through its lease and its deadline, others go on without it, and then it wakes up."""

from __future__ import annotations

import signal
from functools import partial
from typing import Final

import asyncpg
import psutil
import pytest

from tests.faults.cluster import Cluster
from tests.faults.service_process import ServiceProcess
from tests.waiting import eventually_true
from triumvir.testing import Call

pytestmark = pytest.mark.slow
MOMENTS: Final = {
    "before_the_effect": ("before", "reserve"),
    "in_its_transaction": ("before", "book"),
    "after_the_effect": ("after", "charge"),
}


class Sleep:
    """Puts a process to sleep the first time a call of ``step`` is there."""

    def __init__(self, process: ServiceProcess, step: str) -> None:
        self._process = process
        self._step = step
        self.fell = False

    async def __call__(self, call: Call) -> None:
        if call.step == self._step and not self.fell:
            self.fell = True
            self._process.send(signal.SIGSTOP)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_f37_an_agent_that_sleeps(cluster: Cluster, moment: str) -> None:
    when, step = MOMENTS[moment]
    await cluster.start()
    zombie = cluster.services["agent"]
    sleep = Sleep(zombie, step)
    setattr(cluster.downstream, when, sleep)
    order = await cluster.load.submit_one("slept-over")
    await eventually_true(lambda: _is(sleep.fell), what="the agent's sleep")
    await (await cluster.add("agent", "second agent")).ready()
    await order.result(timeout=60)
    assert await attempts(cluster) >= 2
    zombie.send(signal.SIGCONT)
    await cluster.load.submit(20, "good", "refused")
    await cluster.assert_sound()
    assert await net(cluster) == {"reserve": 1, "book": 1, "charge": 1}


async def test_f37_an_agent_that_sleeps_before_its_reply(cluster: Cluster) -> None:
    """Its outcome is committed; the next attempt gets it from the inbox, without a call."""
    await cluster.start()
    zombie = cluster.services["agent"]
    blocker = await asyncpg.connect(
        cluster.settings.database_url, server_settings={"search_path": "triumvir"}
    )
    held = blocker.transaction()

    async def hold(call: Call) -> None:
        if call.step == "reserve" and not held_rows:
            await held.start()
            held_rows.append(await blocker.fetchrow("select * from inbox for update"))

    held_rows: list[object] = []
    cluster.downstream.after = hold
    order = await cluster.load.submit_one("unsaid")
    await eventually_true(lambda: waits_for_lock(cluster), what="the agent's finish that waits for the row")
    zombie.send(signal.SIGSTOP)
    await held.rollback()
    await blocker.close()
    await eventually_true(lambda: is_recorded(cluster), what="the outcome in the inbox")
    await (await cluster.add("agent", "second agent")).ready()
    await order.result(timeout=60)
    assert await attempts(cluster) >= 2
    assert sum(call.step == "reserve" for call in cluster.downstream.calls()) == 1
    zombie.send(signal.SIGCONT)
    await cluster.load.submit(10, "good")
    await cluster.assert_sound()


async def test_f37_a_scheduler_that_sleeps_in_a_transaction(cluster: Cluster) -> None:
    """Whatever it had locked is freed by the database; when it wakes, nothing of that batch gets out."""
    short = {"TRIUMVIR_STATEMENT_TIMEOUT": "2"}
    await cluster.start(**short)
    few = {"TRIUMVIR_PREFETCH": "10"}  # what it has in hand while it sleeps, nobody else gets
    second = await cluster.add("scheduler", "second scheduler", **short, **few)
    await second.ready()
    for _ in range(3):
        await cluster.load.submit(30)
        await eventually_true(
            lambda: freeze_in_transaction(cluster, second), within=60, what="a frozen batch"
        )
        goal = await ended(cluster) + 10
        await cluster.load.submit(20)
        await eventually_true(partial(_reached, cluster, goal), within=60, what="progress without it")
        second.send(signal.SIGCONT)
    await cluster.assert_sound()


async def freeze_in_transaction(cluster: Cluster, process: ServiceProcess) -> bool:
    """Stop the process; whether that left a transaction of it open. If not it goes on."""
    process.send(signal.SIGSTOP)
    ports = {connection.laddr.port for connection in psutil.Process(process.pid).net_connections("tcp")}
    open_ones = await cluster.database.fetchval(
        "select count(*) from pg_stat_activity where client_port = any($1) and state = 'idle in transaction'"
        " and query not ilike 'select%now%' and datname = current_database()",
        list(ports),
    )
    if not open_ones:
        process.send(signal.SIGCONT)
    return bool(open_ones)


async def waits_for_lock(cluster: Cluster) -> bool:
    return bool(
        await cluster.database.fetchval(
            "select exists (select from pg_stat_activity where datname = current_database()"
            " and wait_event_type = 'Lock' and application_name = 'triumvir agent finishes')"
        )
    )


async def is_recorded(cluster: Cluster) -> bool:
    return bool(
        await cluster.database.fetchval("select exists (select from inbox where state = 'succeeded')")
    )


async def attempts(cluster: Cluster) -> int:
    return int(await cluster.database.fetchval("select max(attempt) from orders"))


async def ended(cluster: Cluster) -> int:
    return int(await cluster.database.fetchval("select count(*) from orders where ended_at is not null"))


async def net(cluster: Cluster) -> dict[str, int]:
    """Net effects of the order that was slept over, by step."""
    found: dict[str, int] = {}
    for effect in (await cluster.ledger()).effects:
        if effect.order.endswith("/slept-over"):
            found[effect.step] = found.get(effect.step, 0) + (1 if effect.direction == "do" else -1)
    return found


async def _reached(cluster: Cluster, goal: int) -> bool:
    return await ended(cluster) >= goal


async def _is(fact: bool) -> bool:
    return fact
