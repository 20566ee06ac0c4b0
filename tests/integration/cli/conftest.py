from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.servers import ServerSet
from triumvir.cli import equipment
from triumvir.cli.app import execute
from triumvir.settings import Settings

Triumvir = Callable[..., Any]


@pytest.fixture
def vhost(broker_url: str) -> str:
    return urllib.parse.unquote(urllib.parse.urlsplit(broker_url).path.removeprefix("/"))


@pytest.fixture
def client_name(vhost: str, server_set: ServerSet) -> Iterator[str]:
    """A name of this test's own (users are shared by all vhosts); the user is removed afterwards."""
    name = f"shop-{vhost.removeprefix('test-')}"
    yield name
    server_set.manage("DELETE", f"users/{name}")


@pytest.fixture
def triumvir(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Triumvir]:
    """Run a command on this test's servers; what it printed, decoded if that is JSON. ``err``: its notes, too."""
    monkeypatch.setenv("TRIUMVIR_BROKER_URL", settings.broker_url)
    monkeypatch.setenv("TRIUMVIR_MANAGEMENT_URL", settings.management_url)
    monkeypatch.setenv("TRIUMVIR_DATABASE_URL", settings.database_url)
    monkeypatch.setenv("TRIUMVIR_QUORUM_QUEUES", "false")
    monkeypatch.setenv("COLUMNS", "160")
    equipment.settings.cache_clear()

    def command(*arguments: str, code: int = 0, err: bool = False) -> Any:
        capsys.readouterr()
        assert execute(arguments) == code, capsys.readouterr()
        said = capsys.readouterr()
        if code or err:
            return said.out + said.err
        return json.loads(said.out) if "--json" in arguments else said.out

    yield command
    equipment.settings.cache_clear()
