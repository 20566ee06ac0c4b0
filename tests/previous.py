"""What is kept of the previous release: its messages, its rows, its statements."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import asyncpg
import pytest

from tests.servers import SCHEMA
from triumvir.store import migrate as migrations

KEPT: Final = Path(__file__).parent / "fixtures" / "previous_release"
LAST_MIGRATION: Final = 7
CLIENT: Final = "kept-client"
"""The client of the kept rows."""


async def migrate_as_before(database_url: str) -> None:
    """The schema as the previous release left it."""
    before = [each for each in migrations.available() if each.number <= LAST_MIGRATION]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrations, "available", lambda series="migrations": before)
        await migrations.migrate(database_url, SCHEMA)


async def load_rows(database_url: str, client: str = CLIENT) -> None:
    """The kept rows, as those of this client."""
    text = (KEPT / "rows.sql").read_text().replace(CLIENT, client)
    connection = await asyncpg.connect(database_url, server_settings={"search_path": SCHEMA})
    try:
        await connection.execute(text)
    finally:
        await connection.close()
