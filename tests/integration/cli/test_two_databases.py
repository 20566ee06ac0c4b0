"""``migrate`` with a database for documents alone, and what the doctor says of the documents."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import timedelta

import asyncpg
import pytest

from tests.integration.cli.ailing import problems, use
from tests.integration.cli.conftest import Triumvir
from tests.servers import SCHEMA, ServerSet, blocking
from triumvir.settings import Settings

LATE = Settings().lone_document_age + timedelta(minutes=2)


def execute(url: str, sql: str, *values: object) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url, server_settings={"search_path": SCHEMA})
        await connection.execute(sql, *values)
        await connection.close()

    blocking(run)


@pytest.fixture
def orders_dsn(server_set: ServerSet, monkeypatch: pytest.MonkeyPatch, triumvir: Triumvir) -> Iterator[str]:
    """An empty database, given to every command; dropped afterwards."""
    with server_set.database(migrated=False) as url:
        use(monkeypatch, orders_dsn=url)
        yield url


def test_migrate_brings_up_both_and_pairs_them_once(triumvir: Triumvir, orders_dsn: str) -> None:
    said = triumvir("migrate")
    assert "applied 0001 documents (orders database)" in said
    assert "paired the state repository with the orders database" in said
    assert triumvir("migrate") == "schema 'triumvir' is up to date\n"
    found = triumvir("doctor", code=1)
    assert "ok    orders database: Postgres" in found
    assert "ok    documents: each of some age was compared with the orders" in found


def test_an_orders_database_that_is_away_names_its_setting(
    triumvir: Triumvir, orders_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    triumvir("migrate")
    use(monkeypatch, orders_dsn="postgresql://nobody:secret@127.0.0.1:9/none")
    said = triumvir("migrate", code=1)
    assert "orders database (TRIUMVIR_ORDERS_DSN): Postgres cannot be reached" in said
    assert "secret" not in said


def test_the_state_repository_itself_is_refused_as_orders_database(
    triumvir: Triumvir, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, orders_dsn=settings.database_url)
    assert "names a state repository" in triumvir("migrate", code=1)


def test_documents_that_nobody_compares_are_told(triumvir: Triumvir, orders_dsn: str) -> None:
    triumvir("migrate")
    execute(
        orders_dsn,
        "insert into order_documents (client, order_id, payload, digest, at)"
        " values ('shop', '1', '{}', sha256('1'), clock_timestamp() - $1::interval)",
        LATE,
    )
    found = problems(triumvir)["documents"]
    assert "were not compared with the orders" in found["problem"]
    assert "supervisor" in found["fix"]


def test_documents_of_before_are_told_until_they_are_moved(
    triumvir: Triumvir, orders_dsn: str, settings: Settings
) -> None:
    """By the commands of the page on two databases."""
    execute(
        settings.database_url,
        "insert into order_documents (client, order_id, payload, digest) values ('shop', '1', '{}', sha256('1'))",
    )
    triumvir("migrate")
    assert "still has documents" in problems(triumvir)["documents in the state repository"]["problem"]
    columns = "(client, order_id, payload, digest, at)"
    copy = subprocess.run(
        ["psql", settings.database_url, "-c", f"\\copy {SCHEMA}.order_documents {columns} to stdout"],
        capture_output=True, check=True,
    )  # fmt: skip
    subprocess.run(
        ["psql", orders_dsn, "-c", f"\\copy {SCHEMA}.order_documents {columns} from stdin"],
        input=copy.stdout, capture_output=True, check=True,
    )  # fmt: skip
    execute(settings.database_url, "truncate order_documents")
    assert not [subject for subject in problems(triumvir) if "documents" in subject]
