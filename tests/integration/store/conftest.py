"""One database for a module's tests, emptied before each: making one costs more than most of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from tests.servers import SCHEMA, ServerSet
from triumvir.settings import Settings
from triumvir.store import session

_TABLES = (
    "admission", "commands", "dead_letter_log", "dead_letters", "deliveries", "documents_elsewhere", "inbox",
    "instances", "bulks", "bulk_orders", "bulk_log", "pauses", "pause_log",
    "aged_orders", "reveal_log", "order_documents", "orders", "outbox", "steps", "transitions", "workflows",
)  # fmt: skip


@pytest.fixture(scope="module")
def module_database_url(server_set: ServerSet) -> Iterator[str]:
    with server_set.database() as url:
        yield url


@pytest.fixture
async def settings(module_database_url: str) -> Settings:
    """An empty database alone: nothing here needs a broker."""
    settings = Settings(database_url=module_database_url, database_schema=SCHEMA)
    opened = await session.connect(settings, "test setup")
    await opened.execute("; ".join(f"delete from {table}" for table in _TABLES))
    await opened.close()
    return settings


@pytest.fixture
async def connection(settings: Settings) -> AsyncIterator[asyncpg.Connection]:
    """A service's connection: schema, time-outs and pinned plans as in production."""
    opened = await session.connect(settings, "test")
    yield opened
    opened.terminate()


@pytest.fixture
async def other(settings: Settings) -> AsyncIterator[asyncpg.Connection]:
    """A second process' connection."""
    opened = await session.connect(settings, "other test")
    yield opened
    opened.terminate()
