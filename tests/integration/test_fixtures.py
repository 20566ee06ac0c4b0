"""The fixtures themselves: what other tests rely on."""

from __future__ import annotations

import urllib.parse

import asyncpg
import pytest

from tests.servers import SCHEMA, ServerSet
from triumvir.settings import Settings


async def test_a_migrated_database_has_the_schema(settings: Settings) -> None:
    connection = await asyncpg.connect(settings.database_url)
    try:
        assert await connection.fetchval("select to_regclass($1)", f"{SCHEMA}.orders") is not None
    finally:
        await connection.close()


@pytest.mark.parametrize("run", [1, 2])
async def test_no_test_sees_the_database_of_another(empty_database_url: str, run: int) -> None:
    connection = await asyncpg.connect(empty_database_url)
    try:
        await connection.execute("create table marks (run int)")
    finally:
        await connection.close()


def test_a_vhost_is_gone_after_its_test(server_set: ServerSet) -> None:
    with server_set.vhost() as url:
        name = urllib.parse.urlsplit(url).path[1:]
        assert name.encode() in server_set.manage("GET", "vhosts")
    assert name.encode() not in server_set.manage("GET", "vhosts")
