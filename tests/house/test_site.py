"""The site is built without a warning: no dead link or anchor, no name in a docstring that leads nowhere."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import triumvir
from tests.house.pages import pages
from tests.house.source import ROOT
from triumvir import errors
from triumvir.cli.app import app


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as ``make docs`` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = ["-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-c", "docs/site", ".", str(folder)]
    answer = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert answer.returncode == 0, answer.stderr
    return folder


def test_every_page_is_in_the_navigation(site: Path) -> None:
    first = (site / "docs/index.html").read_text()
    linked = {(site / "docs" / target).resolve() for target in re.findall(r'href="([^"#:]+\.html)"', first)}
    shown = [page for page in pages() if "node_modules" not in page.parts]
    expected = {(site / page.relative_to(ROOT)).with_suffix(".html").resolve() for page in shown}
    assert {str(page.relative_to(site.resolve())) for page in expected - linked} <= {"docs/index.html"}


def test_the_reference_shows_everything_public_with_a_text(site: Path) -> None:
    page = (site / "docs/reference/python.html").read_text()
    shown = {name.rpartition(".")[2] for name in re.findall(r'<dt [^>]*id="triumvir\.([\w.]+)"', page)}
    raised = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and "Error" in str(value.__mro__)
    }
    assert {*triumvir.__all__, *raised} - {"__version__", "timedelta"} - shown == set()
    assert re.findall(r"<dd>\s*</dd>", page) == []


def test_the_reference_of_the_command_line_shows_every_command_and_option(site: Path) -> None:
    page = html.unescape(re.sub("<[^>]+>", "", (site / "docs/reference/commands.html").read_text()))
    seen = 0
    for name, command in _commands("triumvir", typer.main.get_command(app)):
        section = page.partition(f"\n{name}¶")[2].partition("¶")[0]
        assert section, name
        for option in (
            spelling for each in command.params for spelling in each.opts if spelling.startswith("-")
        ):
            assert option in section, f"{name} {option}"
            seen += 1
    assert seen > 30


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    members: dict[str, Any] = getattr(command, "commands", {})
    if not members:
        yield name, command
    for each in members:
        yield from _commands(f"{name} {each}", members[each])
