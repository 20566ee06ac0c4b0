"""The doctor beside services that run, as an operator calls it: a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.house.source import ROOT
from tests.servers import ServerSet
from tests.services import Suite, started
from tests.waiting import eventually_blocking
from triumvir.client.blocking import BlockingClient
from triumvir.workflow import Step, Workflow

ERRAND = Workflow("errand", 1, [Step("a", agent="lab", operation="a", undo="un-a")])


@pytest.fixture(scope="module")
def suite(server_set: ServerSet) -> Iterator[Suite]:
    with started(
        server_set,
        ("submitter",),
        ("scheduler",),
        ("supervisor",),
        ("agent", "tests.integration.services.lab:lab"),
        workflows=[ERRAND],
    ) as suite:
        yield suite


def doctor(suite: Suite) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and findings."""
    ran = subprocess.run(
        [sys.executable, "-m", "triumvir.cli", "doctor", "--json"],
        env={**os.environ, **suite.environment({})},
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return ran.returncode, json.loads(ran.stdout)


def connections(suite: Suite, server_set: ServerSet) -> set[str]:
    """Who is connected, by address and port: another connection has another name."""
    found = json.loads(server_set.manage("GET", f"vhosts/{suite.vhost}/connections"))
    return {each["name"] for each in found}


def test_a_healthy_installation_has_nothing_wrong(suite: Suite) -> None:
    suite.add_client("shop")
    code, findings = doctor(suite)
    assert [finding for finding in findings if finding["problem"] is not None] == []
    assert code == 0
    assert {"submitter", "scheduler", "supervisor", "agent lab", "clients"} <= {
        finding["subject"] for finding in findings
    }


def test_a_queue_with_other_arguments_is_told_and_no_service_is_disturbed(
    suite: Suite, server_set: ServerSet
) -> None:
    client = BlockingClient(suite.add_client("late").url)
    place = f"queues/{suite.vhost}/alerts"
    server_set.manage("DELETE", place)
    server_set.manage("PUT", place, {"durable": True, "arguments": {"x-max-length": 7}})
    # The broker's list of connections is some seconds old.
    eventually_blocking(lambda: len(connections(suite, server_set)) >= len(suite.running), within=60)
    before = connections(suite, server_set)

    code, findings = doctor(suite)
    (wrong,) = (finding for finding in findings if finding["subject"] == "queue alerts")
    assert "x-max-length is 7 instead of 100000" in wrong["problem"]
    assert code == 1

    assert before <= connections(suite, server_set)
    assert {service.get("/readyz")[0] for service in suite.running} == {200}
    assert json.loads(server_set.manage("GET", place))["arguments"]["x-max-length"] == 7
    with client:
        assert client.submit("errand", {}, order_id="1").result(timeout=60)["step"] == "a"
