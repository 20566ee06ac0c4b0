"""F24: Postgres crashes under load and in the middle of a recovery; its sessions are ended again and again."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Final

import asyncpg
import pytest

from tests.faults.cluster import STRAIGHT, Cluster
from tests.faults.pressure import more_ended, said, under_load
from tests.waiting import eventually, eventually_true
from triumvir.local import PrivateServers
from triumvir.settings import Settings
from triumvir.telemetry import events

CRASHES = 5
TERMINATIONS = 8
PATIENCE = str(CRASHES + 3)
"""Attempts of a step: each crash may cost a slow one its attempt, and flaky ones fail on their own."""
OVERDUE = (
    "select i.no from orders o join inbox i on i.no = o.no and i.step_no = o.step and i.direction = 'do'"
    " where o.state = 'processing' and o.complete_by < clock_timestamp() - interval '0.2 s'"
)


NOTICES: Final = (events.LOOP_FAILED, events.INBOX_UNREACHABLE, events.REQUEST_FAILED)
"""By one of these a service tells that the database went away: an agent's loops seldom need it."""


@pytest.mark.slow
async def test_f24_postgres_that_crashes_five_times_under_load_leaves_no_order_behind(
    private_servers: PrivateServers, private_settings: Settings, logs: Path
) -> None:
    async with Cluster(private_settings, logs, max_failures=PATIENCE) as cluster:
        await crash_under_load(cluster, private_servers)
        await cluster.assert_sound()
        for name in STRAIGHT:
            assert any(said(cluster, name, event) for event in NOTICES), f"{name} noticed"


async def crash_under_load(cluster: Cluster, private_servers: PrivateServers) -> None:
    await cluster.start()
    async with under_load(cluster):
        for _ in range(CRASHES):
            await more_ended(cluster, 5)
            crashed = private_servers.database.pid
            await asyncio.to_thread(private_servers.database.restart, "immediate")
            assert private_servers.database.pid != crashed
        await more_ended(cluster, 5)
    await cluster.reconnect()


async def test_f24_postgres_that_crashes_in_the_middle_of_a_recovery_strands_no_order(
    cluster: Cluster, private_servers: PrivateServers
) -> None:
    """The supervisor has locked overdue orders and waits for the inbox row of one of them."""
    await cluster.start()
    # The scheduler holds for agents it has not seen yet, and the one who lifts holds is about to sleep.
    await cluster.load.submit(4, "good")
    await eventually(lambda: cluster.load.ended >= 4, within=60, what="first orders at their end")
    supervisor = cluster.services["supervisor"]
    supervisor.send(signal.SIGSTOP)
    await cluster.load.submit(16, "good", "reopened")
    await eventually(lambda: cluster.database.fetch(OVERDUE), what="overdue orders")
    blocker = await asyncpg.connect(cluster.settings.database_url)
    await blocker.execute("set search_path to triumvir")
    await blocker.execute("begin")
    held = await blocker.fetch(f"{OVERDUE} for update of i")
    supervisor.send(signal.SIGCONT)
    await eventually_true(lambda: waits_for_inbox(cluster), what="the supervisor in its transaction")
    await asyncio.to_thread(private_servers.database.restart, "immediate")
    await cluster.reconnect()
    assert held
    assert blocker.is_closed()
    await cluster.assert_sound()
    assert [line["loop"] for line in said(cluster, "supervisor", events.LOOP_FAILED)].count("overdue") > 0


@pytest.mark.slow
async def test_sessions_that_are_terminated_again_and_again_under_load_cost_nothing(cluster: Cluster) -> None:
    await cluster.start()
    ended: set[str] = set()
    async with under_load(cluster):
        for _ in range(TERMINATIONS):
            await more_ended(cluster, 5)
            rows = await cluster.database.fetch(
                "select application_name, pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            ended |= {row["application_name"] for row in rows if row["pg_terminate_backend"]}
        await more_ended(cluster, 10)
    await cluster.assert_sound()
    for name in (*STRAIGHT, "operation"):
        assert any(session.startswith(f"triumvir {name}") for session in ended), (
            f"a session of {name} was ended"
        )


async def waits_for_inbox(cluster: Cluster) -> bool:
    return bool(
        await cluster.database.fetchval(
            "select exists (select from pg_stat_activity where datname = current_database()"
            " and wait_event_type = 'Lock' and application_name = 'triumvir supervisor overdue')"
        )
    )
