"""What the doctor said, for tests to look into."""

from __future__ import annotations

import urllib.parse
from typing import TypedDict

import pytest

from tests.integration.cli.conftest import Triumvir
from triumvir.cli import equipment


class Problem(TypedDict):
    problem: str
    fix: str


def problems(triumvir: Triumvir) -> dict[str, Problem]:
    """What the doctor finds wrong, by subject."""
    text: str = triumvir("doctor", code=1)
    found: dict[str, Problem] = {}
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("  WRONG "):
            subject, _, problem = line.removeprefix("  WRONG ").partition(": ")
            found[subject] = {"problem": problem, "fix": following.strip().removeprefix("do: ")}
    return found


def use(monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
    """Give the next command other settings than the test's own servers: ``broker_url=...``."""
    for name, value in settings.items():
        monkeypatch.setenv(f"TRIUMVIR_{name.upper()}", value)
    equipment.settings.cache_clear()


def quoted_vhost(broker_url: str) -> str:
    """The vhost as it stands in a path of the management API."""
    path = urllib.parse.urlsplit(broker_url).path.removeprefix("/")
    return urllib.parse.quote(urllib.parse.unquote(path) or "/", safe="")


def as_user(url: str, user: str, password: str) -> str:
    """The same server, as somebody else."""
    place = urllib.parse.urlsplit(url)
    return place._replace(netloc=f"{user}:{password}@{place.hostname}:{place.port}").geturl()
