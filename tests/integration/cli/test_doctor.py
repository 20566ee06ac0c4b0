"""Each thing that can be wrong is said in plain words, with what to do."""

from __future__ import annotations

import urllib.parse
from typing import Any

import asyncpg
import pytest

from tests.integration.cli.conftest import Triumvir
from tests.servers import ServerSet
from triumvir.broker import connect, core_topology, declare, status_queue
from triumvir.cli import equipment
from triumvir.settings import Settings
from triumvir.workflow import Step, Workflow


def problems(triumvir: Triumvir) -> dict[str, dict[str, Any]]:
    """What the doctor finds wrong, by subject."""
    text: str = triumvir("doctor", code=1)
    found: dict[str, dict[str, Any]] = {}
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("  WRONG "):
            subject, _, problem = line.removeprefix("  WRONG ").partition(": ")
            found[subject] = {"problem": problem, "fix": following.strip().removeprefix("do: ")}
    return found


@pytest.fixture
async def declared(settings: Settings) -> None:
    connection = await connect(settings.broker_url, "test setup")
    await declare(connection, core_topology(quorum=False))
    await connection.close()


def test_an_installation_without_services_is_told_what_to_start(triumvir: Triumvir) -> None:
    found = problems(triumvir)
    for service in ("submitter", "scheduler", "supervisor"):
        assert found[service]["fix"] == f"start one: triumvir run {service}"
    assert found["queue orders"]["problem"] == "it does not exist"
    assert "database" not in found
    assert "broker" not in found


def test_a_queue_with_other_arguments_is_named_with_the_difference(
    triumvir: Triumvir, declared: None, settings: Settings, server_set: ServerSet
) -> None:
    vhost = urllib.parse.quote(urllib.parse.urlsplit(settings.broker_url).path.removeprefix("/"), safe="")
    server_set.manage("DELETE", f"queues/{vhost}/alerts")
    server_set.manage("PUT", f"queues/{vhost}/alerts", {"durable": True, "arguments": {"x-max-length": 7}})
    assert "x-max-length is 7 instead of 100000" in problems(triumvir)["queue alerts"]["problem"]


def test_an_unreachable_database_and_broker_are_two_findings(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIUMVIR_DATABASE_URL", "postgresql://nobody:secret@127.0.0.1:9/none")
    monkeypatch.setenv("TRIUMVIR_BROKER_URL", "amqp://nobody:secret@127.0.0.1:9/")
    monkeypatch.setenv("TRIUMVIR_MANAGEMENT_URL", "http://nobody:secret@127.0.0.1:9")
    equipment.settings.cache_clear()
    found = problems(triumvir)
    assert "TRIUMVIR_DATABASE_URL" in found["database"]["fix"]
    assert "TRIUMVIR_BROKER_URL" in found["broker"]["fix"]
    assert "rabbitmq_management" in found["management"]["fix"]
    assert "secret" not in str(found)


async def _execute(settings: Settings, sql: str, *values: object) -> None:
    connection = await asyncpg.connect(
        settings.database_url, server_settings={"search_path": settings.database_schema}
    )
    await connection.execute(sql, *values)
    await connection.close()


@pytest.fixture
async def ahead(settings: Settings) -> None:
    await _execute(
        settings, "insert into schema_migrations (number, name, digest) values (9999, 'later', 'x')"
    )


@pytest.fixture
async def behind(settings: Settings) -> None:
    await _execute(settings, "delete from schema_migrations")


def test_a_schema_ahead_asks_for_an_upgrade(ahead: None, triumvir: Triumvir) -> None:
    assert problems(triumvir)["database"]["fix"] == "upgrade triumvir"


def test_a_schema_behind_asks_for_a_migration(behind: None, triumvir: Triumvir) -> None:
    assert problems(triumvir)["database"]["fix"] == "run: triumvir migrate"


@pytest.fixture
async def unmanned(settings: Settings) -> None:
    workflow = Workflow("lonely", 1, [Step("one", agent="nobody-here", operation="wait")])
    await _execute(
        settings,
        "insert into workflows (name, version, definition, digest) values ($1, $2, $3, $4)",
        workflow.name,
        workflow.version,
        workflow.to_json(),
        workflow.digest(),
    )


def test_an_agent_that_nobody_runs_is_named_with_its_workflow(unmanned: None, triumvir: Triumvir) -> None:
    assert "'lonely'" in problems(triumvir)["agent nobody-here"]["problem"]


def test_a_client_without_its_queue_gets_it_back_by_the_command_that_is_named(
    triumvir: Triumvir, client_name: str, settings: Settings, server_set: ServerSet
) -> None:
    triumvir("clients", "add", client_name)
    vhost = urllib.parse.quote(urllib.parse.urlsplit(settings.broker_url).path.removeprefix("/"), safe="")
    server_set.manage("DELETE", f"queues/{vhost}/{status_queue(client_name)}")
    fix = problems(triumvir)[f"client {client_name}"]["fix"]
    triumvir(*fix.rpartition("triumvir ")[2].split())
    assert f"client {client_name}" not in problems(triumvir)


def test_a_user_that_may_not_do_what_services_do_is_told_the_command(
    triumvir: Triumvir, declared: None, settings: Settings, server_set: ServerSet
) -> None:
    place = urllib.parse.urlsplit(settings.broker_url)
    vhost = urllib.parse.quote(place.path.removeprefix("/"), safe="")
    rights = {"configure": ".*", "write": "^orders$", "read": ".*"}
    server_set.manage("PUT", f"permissions/{vhost}/{place.username}", rights)
    found = problems(triumvir)
    assert "may not write" in found["permissions"]["problem"]
    assert "set_permissions" in found["permissions"]["fix"]
