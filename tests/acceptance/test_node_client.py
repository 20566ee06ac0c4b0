"""The Node client, written from the contract alone, against the real services."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.house.source import ROOT
from tests.integration.services.lab import WORKFLOWS
from tests.integration.services.workbench import new_id
from tests.servers import ServerSet
from tests.services import Account, Suite, started

CLIENT = ROOT / "examples" / "clients" / "node"


@pytest.fixture(scope="module")
def node_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with its one package installed, away from the checkout."""
    assert shutil.which("npm"), "npm is missing: make setup installs it"
    folder = tmp_path_factory.mktemp("node") / "client"
    shutil.copytree(CLIENT, folder)
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    subprocess.run(install, cwd=folder, check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def services(server_set: ServerSet) -> Iterator[Suite]:
    with started(
        server_set,
        ("submitter",),
        ("scheduler",),
        ("supervisor",),
        ("agent", "tests.integration.services.lab:lab"),
        workflows=WORKFLOWS,
    ) as suite:
        yield suite


@pytest.fixture(scope="module")
def account(services: Suite) -> Account:
    return services.add_client("node")


def follow(
    folder: Path, account: Account, workflow: str, payload: object, *flags: str
) -> list[dict[str, Any]]:
    """What the client prints for one order: its statuses."""
    command = ["node", "main.mjs", account.url, workflow, new_id(), json.dumps(payload), *flags]
    ran = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_a_node_client_submits_and_follows_an_order_to_its_result(
    node_client: Path, account: Account
) -> None:
    statuses = follow(node_client, account, "trio", {"from": "node"})
    assert [(status["status"], status["sequence"]) for status in statuses] == [
        ("received", 1),
        ("completed", 2),
    ]
    assert statuses[-1]["result"]["step"] == "c"


def test_a_node_client_is_told_why_it_was_refused(node_client: Path, account: Account) -> None:
    (status,) = follow(node_client, account, "no-such-workflow", {})
    assert status["status"] == "rejected"
    assert "no workflow is called 'no-such-workflow'" in status["detail"]


def test_a_node_client_cancels_and_is_told_what_that_meant(node_client: Path, account: Account) -> None:
    statuses = follow(node_client, account, "trio", {"b": "gate"}, "--cancel")
    assert statuses[0]["status"] == "received"
    assert statuses[-1]["status"] in ("cancelled", "compensated")
