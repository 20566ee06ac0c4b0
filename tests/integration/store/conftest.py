from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.servers import SCHEMA
from triumvir.settings import Settings
from triumvir.store import session


@pytest.fixture
def settings(database_url: str) -> Settings:
    """The database alone: nothing here needs a broker."""
    return Settings(database_url=database_url, database_schema=SCHEMA)


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
