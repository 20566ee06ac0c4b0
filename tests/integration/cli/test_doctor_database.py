"""Each thing that can be wrong with Postgres, services and agents is said in plain words, with what to do."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterator
from datetime import timedelta

import asyncpg
import orjson
import pytest

from tests.integration.cli.ailing import as_user, problems, use
from tests.integration.cli.conftest import Triumvir
from tests.integration.cli.masks import masked, postgres_of_version, postgres_whose_clock_is_off
from tests.servers import ServerSet, blocking
from triumvir.settings import Settings
from triumvir.store import operators
from triumvir.workflow import Step, Workflow

Execute = Callable[..., None]


@pytest.fixture
def execute(settings: Settings) -> Execute:
    """Run SQL on this test's database, as its owner."""

    def run(sql: str, *values: object) -> None:
        async def work() -> None:
            options = {"search_path": settings.database_schema}
            connection = await asyncpg.connect(settings.database_url, server_settings=options)
            await connection.execute(sql, *values)
            await connection.close()

        blocking(work)

    return run


@pytest.fixture
def stranger(settings: Settings, execute: Execute) -> Iterator[str]:
    """A Postgres user that owns nothing and was granted nothing."""
    name = f"app-{urllib.parse.urlsplit(settings.database_url).path.removeprefix('/test_')}"
    execute(f"create role \"{name}\" login password 'secret'")
    yield name
    execute(f'drop owned by "{name}"')
    execute(f'drop role "{name}"')


def apply(execute: Execute, workflow: Workflow) -> None:
    execute(
        "insert into workflows (name, version, definition, digest) values ($1, $2, $3, $4)",
        workflow.name,
        workflow.version,
        workflow.to_json(),
        workflow.digest(),
    )


def test_an_installation_without_services_is_told_what_to_start(triumvir: Triumvir) -> None:
    found = problems(triumvir)
    for service in ("submitter", "scheduler", "supervisor"):
        assert found[service]["fix"] == f"start one: triumvir run {service}"
    assert not {"database", "database permissions", "database schema", "broker"} & set(found)


def test_an_unreachable_database_names_its_setting_and_no_password(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, database_url="postgresql://nobody:secret@127.0.0.1:9/none")
    found = problems(triumvir)
    assert "127.0.0.1:9 cannot be reached" in found["database"]["problem"]
    assert "TRIUMVIR_DATABASE_URL" in found["database"]["fix"]
    assert "broker" not in found, "the rest is looked at all the same"
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("user", "database", "words"),
    [("no-such-user", None, "password authentication failed"), (None, "no-such-database", "does not exist")],
)
def test_a_refused_connection_is_not_taken_for_an_unreachable_database(
    triumvir: Triumvir,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    user: str | None,
    database: str | None,
    words: str,
) -> None:
    url = as_user(settings.database_url, user, "wrong") if user else settings.database_url
    if database:
        url = urllib.parse.urlsplit(url)._replace(path=f"/{database}").geturl()
    use(monkeypatch, database_url=url)
    found = problems(triumvir)["database"]
    assert "refused the connection" in found["problem"]
    assert words in found["problem"]
    assert "correct user, password or database" in found["fix"]


def test_a_user_without_rights_is_told_what_to_grant_until_nothing_is_lacking(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch, settings: Settings, execute: Execute, stranger: str
) -> None:
    use(monkeypatch, database_url=as_user(settings.database_url, stranger, "secret"))
    found = problems(triumvir)["database permissions"]
    assert f"user '{stranger}' may not look into schema 'triumvir'" in found["problem"]

    execute(f'grant usage on schema triumvir to "{stranger}"')
    execute(f'grant select, insert on all tables in schema triumvir to "{stranger}"')
    found = problems(triumvir)["database permissions"]
    assert "update admission, " in found["problem"]
    assert "insert" not in found["problem"]

    execute(found["fix"].partition(": ")[2])
    assert "database permissions" not in problems(triumvir)


@pytest.mark.parametrize("version", ["13.14", "9.6.24"])
def test_a_postgres_that_is_too_old_is_told(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch, settings: Settings, version: str
) -> None:
    with masked(settings.database_url, postgres_of_version(version)) as url:
        use(monkeypatch, database_url=url)
        found = problems(triumvir)["database"]
    assert found["problem"] == f"Postgres {version} is too old"
    assert "Postgres 14 or newer" in found["fix"]


@pytest.mark.parametrize("version", ["14.0", "18.1 (Debian 18.1-1)"])
def test_the_oldest_postgres_that_will_do_and_later_ones_are_fine(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch, settings: Settings, version: str
) -> None:
    with masked(settings.database_url, postgres_of_version(version)) as url:
        use(monkeypatch, database_url=url)
        said = triumvir("doctor", code=1)
    assert f"ok    database: Postgres {version}" in said


@pytest.mark.parametrize(("seconds", "words"), [(7200, "2 h ahead of"), (-20, "20 s behind")])
def test_a_database_whose_clock_is_off_is_told_by_how_much(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch, settings: Settings, seconds: int, words: str
) -> None:
    with masked(settings.database_url, postgres_whose_clock_is_off(timedelta(seconds=seconds))) as url:
        use(monkeypatch, database_url=url)
        found = problems(triumvir)["clock of the database"]
    assert found["problem"] == f"it is {words} this machine's"
    assert "deadlines go by the database's" in found["fix"]


def test_clocks_that_are_a_few_seconds_apart_are_no_problem(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    with masked(settings.database_url, postgres_whose_clock_is_off(timedelta(seconds=3))) as url:
        use(monkeypatch, database_url=url)
        assert "clock of the database" not in problems(triumvir)


def test_a_schema_ahead_asks_for_an_upgrade(execute: Execute, triumvir: Triumvir) -> None:
    execute("insert into schema_migrations (number, name, digest) values (9999, 'later', 'x')")
    found = problems(triumvir)["database schema"]
    assert "later release (migration 9999)" in found["problem"]
    assert found["fix"] == "upgrade triumvir on this machine"


def test_a_schema_behind_names_what_it_lacks_and_the_command(execute: Execute, triumvir: Triumvir) -> None:
    execute("delete from schema_migrations")
    found = problems(triumvir)["database schema"]
    assert "lacks 0001_spine" in found["problem"]
    assert found["fix"] == "triumvir migrate"


def test_an_empty_database_lacks_every_migration(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch, server_set: ServerSet
) -> None:
    with server_set.database(migrated=False) as url:
        use(monkeypatch, database_url=url)
        found = problems(triumvir)
        assert "lacks 0001_spine" in found["database schema"]["problem"]
        triumvir("migrate")
        assert "database schema" not in problems(triumvir)


def test_a_migration_that_was_edited_is_not_to_be_migrated_over(execute: Execute, triumvir: Triumvir) -> None:
    execute("update schema_migrations set digest = 'another' where number = 1")
    found = problems(triumvir)["database schema"]
    assert "0001" in found["problem"]
    assert "never edit" in found["fix"]


def test_an_agent_that_nobody_runs_is_named_with_its_workflow(execute: Execute, triumvir: Triumvir) -> None:
    apply(execute, Workflow("lonely", 1, [Step("one", agent="nobody-here", operation="wait")]))
    found = problems(triumvir)["agent nobody-here"]
    assert "nobody runs it, and workflow 'lonely' version 1 needs it" in found["problem"]
    assert found["fix"] == "start it: triumvir run agent MODULE:NAME"


def test_an_agent_that_lacks_an_operation_is_named_with_it(execute: Execute, triumvir: Triumvir) -> None:
    steps = [Step("one", agent="clerk", operation="file", undo="unfile")]
    apply(execute, Workflow("papers", 1, steps))
    execute(
        "insert into instances (id, service, host, pid, release, operations, lease_until) values"
        " (gen_random_uuid(), 'agent', 'here', 1, '0', '{clerk/file}', clock_timestamp() + interval '1 hour')"
    )
    found = problems(triumvir)["agent clerk"]
    assert "does not offer unfile, which workflow 'papers' version 1 needs" in found["problem"]


def test_an_agent_of_an_old_version_is_missed_only_while_an_order_needs_it(
    execute: Execute, triumvir: Triumvir
) -> None:
    for version, agent in ((1, "retired"), (2, "present")):
        apply(execute, Workflow("moved", version, [Step("one", agent=agent, operation="wait")]))
    found = problems(triumvir)
    assert "agent present" in found
    assert "agent retired" not in found
    execute(
        "insert into order_documents (client, order_id, payload, digest) values ('shop', '1', '{}', sha256(''));"
        "insert into orders (client, order_id, workflow, version, digest, state, rank, status_queue)"
        " values ('shop', '1', 'moved', 1, sha256(''), 'pending', 0, 'status.shop')"
    )
    assert "version 1" in problems(triumvir)["agent retired"]["problem"]


def test_messages_that_nobody_sends_are_told(execute: Execute, triumvir: Triumvir) -> None:
    execute("insert into outbox (lease, refs) values (clock_timestamp() - interval '90 seconds', '[]')")
    assert "1 rows wait to be sent, the oldest is overdue for 9" in problems(triumvir)["outbox"]["problem"]


async def test_what_looks_cannot_write(settings: Settings) -> None:
    async with operators.look(settings, settings.database_url) as connection:
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await connection.execute("delete from outbox")


def test_as_json_every_finding_is_an_object_and_the_exit_code_stays(
    triumvir: Triumvir,
) -> None:
    said = triumvir("doctor", "--json", code=1)
    found = {finding["subject"]: finding for finding in orjson.loads(said)}
    assert found["database schema"] == {
        "subject": "database schema",
        "seen": "is the one of this release",
        "problem": None,
        "fix": None,
    }
    assert found["scheduler"]["problem"] == "no scheduler is running"
