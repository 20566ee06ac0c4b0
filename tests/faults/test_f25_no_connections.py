"""F25: more want a connection than there are: whoever gets none gives up in time, holds nothing, and tries again."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.faults.cluster import STRAIGHT, Cluster
from tests.faults.pressure import more_ended, said, under_load
from tests.waiting import eventually, eventually_true
from triumvir.errors import StoreError
from triumvir.settings import Settings
from triumvir.store.session import Session
from triumvir.telemetry import events
from triumvir.testing import Call
from triumvir_agent.transactions import MOST_CONNECTIONS

TASKS: Final = 50
ROOM: Final = 2
OPERATIONS: Final = """
    select count(*) from pg_stat_activity
    where datname = current_database() and application_name = 'triumvir operation'
"""
FULL: Final = "too many connections"


async def test_f25_operations_that_get_no_connection_give_up_at_their_deadline_and_are_tried_again(
    cluster: Cluster,
) -> None:
    """Fifty at once for the eight connections of an agent; those that have one stand still in their transaction."""
    called, go_on = Counter[str](), asyncio.Event()

    async def hold(call: Call) -> None:
        if call.step == "book" and not go_on.is_set():
            called[call.order] += 1
            await go_on.wait()

    cluster.downstream.before = hold
    cluster.tune(slots=str(TASKS), max_failures="20")
    await cluster.start()
    await cluster.load.submit(TASKS, "good")
    await eventually_true(
        lambda: some_gave_up(cluster), within=120, what="attempts that ended without a call"
    )
    assert await cluster.database.fetchval(OPERATIONS) <= MOST_CONNECTIONS
    assert await cluster.database.fetchval("select count(*) from public.bookings") == 0
    go_on.set()
    await cluster.assert_sound()
    assert set((await cluster.states()).values()) == {"processed"}


async def some_gave_up(cluster: Cluster) -> bool:
    """Whether attempts at the step in a transaction are over, and most of them never had one."""
    begun = await cluster.database.fetchval(
        "select coalesce(sum(s.attempt), 0) from steps s where s.step_no = 2 and s.attempt > 1"
    )
    calls = sum(call.step == "book" for call in cluster.downstream.calls())
    return bool(begun > calls > 0)


async def test_f25_of_fifty_sessions_for_two_places_the_others_are_refused_at_once(
    private_settings: Settings,
) -> None:
    async with limited(private_settings, ROOM) as url:
        settings = Settings(**{**private_settings.model_dump(), "database_url": url})
        sessions = [Session(settings, f"task {n}") for n in range(TASKS)]
        outcomes = await asyncio.gather(*map(first_backend, sessions), return_exceptions=True)
        refused = [outcome for outcome in outcomes if isinstance(outcome, StoreError)]
        assert len(refused) == TASKS - ROOM
        assert all(FULL in str(error) for error in refused)
        for session, outcome in zip(sessions, outcomes, strict=True):
            if not isinstance(outcome, StoreError):
                await session.close()
        for session in sessions:  # each by itself finds room again
            await eventually(lambda session=session: found(session), what="room")  # type: ignore[misc]
            await session.close()


async def first_backend(session: Session) -> int:
    async with session.connection() as connection:
        pid: int = await connection.fetchval("select pg_backend_pid()")
        return pid


async def found(session: Session) -> int | None:
    try:
        return await first_backend(session)
    except StoreError:
        return None


@pytest.mark.slow
async def test_f25_services_that_postgres_gives_half_their_connections_come_back(cluster: Cluster) -> None:
    async with limited(cluster.settings, -1) as url:
        role = urlsplit(url).username
        await cluster.start(TRIUMVIR_DATABASE_URL=url)
        used = (
            f"select count(*) from pg_stat_activity where usename = '{role}' and datname = current_database()"
        )
        async with under_load(cluster):
            await more_ended(cluster, 20)
            room = await cluster.database.fetchval(used) // 2
            await cluster.database.execute(f"alter role {role} connection limit {room}")
            await cluster.database.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", role
            )
            await eventually(
                lambda: any(map(is_short_of, services(cluster))), within=120, what="a loop without one"
            )
            assert await cluster.database.fetchval(used) <= room
            await cluster.database.execute(f"alter role {role} connection limit -1")
            await more_ended(cluster, 20)
        await cluster.assert_sound()
        for service in cluster.services.values():
            await service.stop()


def services(cluster: Cluster) -> list[tuple[Cluster, str]]:
    return [(cluster, name) for name in STRAIGHT if name != "agent"]


def is_short_of(service: tuple[Cluster, str]) -> bool:
    """Whether a loop of the service was refused a connection, and said so."""
    return any(FULL in line["error"] for line in said(*service, events.LOOP_FAILED))


@asynccontextmanager
async def limited(settings: Settings, most: int) -> AsyncIterator[str]:
    """The URL of a Postgres user who may do what services do, with so many connections at most (-1: any)."""
    role, schema = f"role_{secrets.token_hex(4)}", settings.database_schema
    owner = await asyncpg.connect(settings.database_url)
    await owner.execute(f"create role {role} login password 'limited' connection limit {most}")
    for where in (schema, "public"):
        await owner.execute(f"grant all on schema {where} to {role}")
        await owner.execute(f"grant all on all tables in schema {where} to {role}")
        await owner.execute(f"grant all on all sequences in schema {where} to {role}")
    place = urlsplit(settings.database_url)
    try:
        yield place._replace(netloc=f"{role}:limited@{place.hostname}:{place.port}").geturl()
    finally:
        await owner.execute(f"drop owned by {role}")
        await owner.execute(f"drop role {role}")
        await owner.close()
