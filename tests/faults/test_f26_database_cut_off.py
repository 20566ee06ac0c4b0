"""F26: the database answers no more, and connections stay open. Every wait for it ends; leases lapse; others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import timedelta
from typing import Final

import asyncpg
import pytest

from tests.faults.cluster import Cluster
from tests.faults.pressure import more_ended, said, time_passes, under_load
from tests.integration.supervision.conftest import DatabaseProxy
from tests.waiting import eventually, eventually_true
from triumvir.errors import StoreError
from triumvir.runtime.service import EXIT_FAILED
from triumvir.runtime.watchdog import EXIT_CODE as EXIT_STALLED
from triumvir.settings import Settings
from triumvir.store.faults import DATABASE_ERRORS
from triumvir.store.session import Session, Store
from triumvir.telemetry import events

Wait = Callable[[Session, DatabaseProxy], Coroutine[None, None, None]]
INSERT: Final = "insert into outbox (lease, refs) values (now(), '[]')"
AT_MOST: Final = 120
"""Seconds, on the slowest machine, for what takes six."""
SECONDS: Final = 100.0


@pytest.fixture
async def proxy(private_settings: Settings) -> AsyncIterator[DatabaseProxy]:
    proxy = DatabaseProxy(private_settings.database_url)
    await proxy.start()
    yield proxy
    await proxy.stop()


async def test_f26_whoever_waits_for_a_database_that_answers_no_more_gives_up(
    private_settings: Settings, proxy: DatabaseProxy
) -> None:
    """In a commit, while it connects, and when readiness is asked for."""
    await give_up(private_settings, proxy, commit)


@pytest.mark.slow
async def test_f26_whoever_waits_within_a_transaction_gives_up(
    private_settings: Settings, proxy: DatabaseProxy
) -> None:
    """Its rollback has no answer either."""
    await give_up(private_settings, proxy, state)


async def give_up(private_settings: Settings, proxy: DatabaseProxy, wait: Wait) -> None:
    """All who wait are told; nothing is written; then everything works again."""
    settings = private_settings.model_copy(
        update={"database_url": proxy.url, "statement_timeout": timedelta(seconds=1)}
    )
    waiting, connecting = (Session(settings, name) for name in ("waiting", "connecting"))
    async with Store(settings, "asked") as store, asyncio.timeout(AT_MOST):
        working = [asyncio.create_task(wait(waiting, proxy))]
        await eventually(lambda: proxy.is_blackholed, what="the cut")
        working.append(asyncio.create_task(connect(connecting)))
        unready, *outcomes = await asyncio.gather(store.ready(), *working, return_exceptions=True)
        assert all(isinstance(outcome, (StoreError, *DATABASE_ERRORS)) for outcome in outcomes), outcomes
        assert str(unready).startswith("database")
        proxy.cut()
        proxy.heal()
        for session in (waiting, connecting):
            await connect(session)
            await session.close()
        assert await store.ready() is None
    database = await asyncpg.connect(private_settings.database_url)
    assert await database.fetchval("select count(*) from triumvir.outbox") == 0
    await database.close()


async def state(session: Session, proxy: DatabaseProxy) -> None:
    async with session.transaction() as connection:
        await connection.execute(INSERT)
        proxy.blackhole()
        await connection.execute("select 1")


async def commit(session: Session, proxy: DatabaseProxy) -> None:
    async with session.transaction() as connection:
        await connection.execute(INSERT)
        proxy.blackhole()


async def connect(session: Session) -> None:
    async with session.connection() as connection:
        await connection.execute("select 1")


@pytest.mark.slow
async def test_f26_services_cut_off_for_two_minutes_lose_their_leases_and_others_go_on(
    cluster: Cluster, proxy: DatabaseProxy
) -> None:
    cluster.expected_exits |= {EXIT_STALLED, EXIT_FAILED}
    cut_off = {kind: f"cut off {kind}" for kind in ("submitter", "scheduler", "agent", "supervisor")}
    # What was delivered to a process that is cut off waits until its watchdog ends it.
    cluster.tune(statement_timeout="2", max_failures="6", watchdog_timeout="20")
    for kind, name in cut_off.items():
        await (await cluster.add(kind, name, TRIUMVIR_DATABASE_URL=proxy.url)).ready()
    await cluster.start()
    async with under_load(cluster, "good", "refused", "slow"):
        await more_ended(cluster, 20)
        proxy.blackhole()
        await eventually_true(lambda: leases_lapsed(cluster), within=120, what="four leases that lapsed")
        await more_ended(cluster, 20)
        await time_passes(SECONDS)
        await more_ended(cluster, 20)
        proxy.heal()  # and everything that was sent meanwhile arrives
        await more_ended(cluster, 20)
    await cluster.assert_sound()
    for name in cut_off.values():
        assert said(cluster, name, events.LOOP_FAILED), f"{name} waited for no answer for ever"


async def leases_lapsed(cluster: Cluster) -> bool:
    live: int = await cluster.database.fetchval(
        "select count(*) from instances where lease_until > clock_timestamp()"
    )
    return live == 4
