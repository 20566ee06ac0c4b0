"""A session outlives its connection, and no session outlives its work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from tests.waiting import eventually
from triumvir.settings import Settings
from triumvir.store.faults import DATABASE_ERRORS, Fault, fault
from triumvir.store.session import Session


@pytest.fixture
async def session(settings: Settings) -> AsyncIterator[Session]:
    opened = Session(settings, "under test")
    yield opened
    await opened.close()


async def _backend(session: Session) -> int:
    async with session.connection() as connection:
        pid: int = await connection.fetchval("select pg_backend_pid()")
        return pid


async def _backends(connection: asyncpg.Connection) -> list[str]:
    rows = await connection.fetch(
        "select state from pg_stat_activity where application_name = 'triumvir under test'"
        " and datname = current_database()"
    )
    return [row["state"] for row in rows]


async def test_a_session_whose_backend_was_terminated_opens_a_new_one(
    session: Session, connection: asyncpg.Connection
) -> None:
    before = await _backend(session)
    await connection.execute("select pg_terminate_backend($1)", before)
    after = await eventually(lambda: _try(session), what="a new backend")
    assert after != before


async def _try(session: Session) -> int | None:
    try:
        return await _backend(session)
    except DATABASE_ERRORS:
        return None


async def test_a_backend_terminated_inside_a_transaction_fails_it_and_no_other(
    session: Session, connection: asyncpg.Connection
) -> None:
    async def work() -> None:
        async with session.transaction() as own:
            await own.execute("insert into outbox (lease, refs) values (now(), '[]')")
            await connection.execute(
                "select pg_terminate_backend($1)", await own.fetchval("select pg_backend_pid()")
            )
            await own.execute("select 1")

    with pytest.raises(DATABASE_ERRORS):
        await work()
    async with session.transaction() as own:
        assert await own.fetchval("select count(*) from outbox") == 0


async def test_a_cancelled_transaction_leaves_no_session_behind(
    session: Session, connection: asyncpg.Connection
) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with session.transaction() as own:
            await own.execute("insert into outbox (lease, refs) values (now(), '[]')")
            inside.set()
            await own.execute("select pg_sleep(30)")

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async def is_gone() -> bool:
        return await _backends(connection) == []

    await eventually(is_gone, what="the end of the cancelled session")
    assert await connection.fetchval("select count(*) from outbox") == 0


async def test_a_body_that_raises_is_rolled_back_and_the_connection_stays(session: Session) -> None:
    async def work() -> None:
        async with session.transaction() as own:
            await own.execute("insert into outbox (lease, refs) values (now(), '[]')")
            raise LookupError

    before = await _backend(session)
    with pytest.raises(LookupError):
        await work()
    async with session.connection() as own:
        assert await own.fetchval("select count(*) from outbox") == 0
    assert await _backend(session) == before


async def test_a_second_transaction_waits_for_the_first(session: Session) -> None:
    order = []
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with session.transaction():
            inside.set()
            await go_on.wait()
            order.append("first")

    async def second() -> None:
        await inside.wait()
        async with session.transaction():
            order.append("second")

    running = asyncio.gather(first(), second())
    await inside.wait()
    go_on.set()
    await running
    assert order == ["first", "second"]


async def test_a_statement_that_takes_too_long_is_stopped_by_the_server(settings: Settings) -> None:
    hasty = Session(settings.model_copy(update={"statement_timeout": timedelta(seconds=1)}), "hasty")
    with pytest.raises(asyncpg.QueryCanceledError):
        async with hasty.transaction() as own:
            await own.execute("select pg_sleep(30)")
    async with hasty.transaction() as own:
        assert await own.fetchval("select 1") == 1
    await hasty.close()


async def test_a_lock_that_does_not_come_is_worth_repeating(
    settings: Settings, connection: asyncpg.Connection
) -> None:
    hasty = Session(settings.model_copy(update={"statement_timeout": timedelta(seconds=1)}), "hasty")
    await connection.execute("insert into outbox (lease, refs) values (now(), '[]')")
    async with connection.transaction():
        await connection.execute("lock table outbox in access exclusive mode")
        with pytest.raises((asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError)) as caught:
            async with hasty.transaction() as own:
                await own.execute("delete from outbox")
    if isinstance(caught.value, asyncpg.LockNotAvailableError):
        assert fault(caught.value) is Fault.AGAIN
    await hasty.close()


async def test_clocks_are_read_in_utc_whatever_the_servers_zone(session: Session) -> None:
    async with session.connection() as own:
        assert await own.fetchval("show timezone") == "UTC"
