"""Connections that operations write on: kept for the next order, and as they were opened."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.waiting import eventually
from triumvir.settings import Settings
from triumvir_agent.transactions import Connections

_WHO = (
    "select current_user, session_user, current_setting('search_path'), current_setting('statement_timeout')"
)


@pytest.fixture
async def connections(settings: Settings) -> AsyncIterator[Connections]:
    opened = Connections(settings, most=1)
    yield opened
    await opened.close()


@pytest.mark.parametrize(
    "sql",
    [
        "set role pg_monitor",
        "set session authorization pg_monitor",
        "set statement_timeout = '1min'",
        "set search_path = pg_temp",
        "set default_transaction_read_only = on",
    ],
)
async def test_the_next_order_finds_the_role_and_the_settings_of_a_new_connection(
    connections: Connections, sql: str
) -> None:
    first = await connections.acquire()
    before, backend = await first.fetchrow(_WHO), first.get_server_pid()
    await first.execute(f"begin; {sql}; commit")
    connections.release(first, sound=True)
    second = await connections.acquire()
    assert (await second.fetchrow(_WHO), second.get_server_pid()) == (before, backend)
    await second.execute("create temp table writable (k int)")
    connections.release(second, sound=True)


async def test_one_left_in_a_transaction_is_cut_off_and_its_place_is_free_again(
    connections: Connections, connection: asyncpg.Connection
) -> None:
    first = await connections.acquire()
    backend = first.get_server_pid()
    await first.execute("begin; select pg_advisory_lock(4712)")
    connections.release(first, sound=True)
    second = await connections.acquire()
    assert second.get_server_pid() != backend
    connections.release(second, sound=True)
    await eventually(lambda: connection.fetchval("select pg_try_advisory_lock(4712)"), what="the lock let go")
