"""The previous release, taken from the history of this repository, beside the present one."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.house.source import ROOT
from tests.servers import ServerSet
from tests.services import Suite
from triumvir.local import folders, leftovers

PREVIOUS: Final = "de1aef870e437ebf486c643ab9d13f4dd8529cc6"
"""The commit of the release before this one, whose schema is that of migration 0007."""
LAB: Final = "tests.integration.services.lab"
_NEEDED: Final = ("shared", "services", "tests/integration/services/lab.py", "tests/waiting.py")


def previous_release(folder: Path) -> Path:
    """Its files in a folder. Skips the test where the history that it is taken from is not there."""
    archive = folder / "previous.tar"
    command = ["git", "-C", str(ROOT), "archive", "-o", str(archive), PREVIOUS, *_NEEDED]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("the previous release is taken from the history, and there is no git")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"the history has no commit {PREVIOUS[:7]} (a shallow clone?): {error.stderr.strip()}")
    with tarfile.open(archive) as files:
        files.extractall(folder / "previous", filter="data")
    return folder / "previous"


class TwoReleases(Suite):
    """A suite whose services are of the previous release, until it is upgraded."""

    def __init__(self, servers: ServerSet, broker_url: str, database_url: str, folder: Path) -> None:
        super().__init__(servers, broker_url, database_url, folder)
        self.home = self._release = previous_release(folder)

    def upgrade(self) -> None:
        """What is started from here on is of the present release."""
        self.home = ROOT

    def environment(self, settings: Mapping[str, object]) -> dict[str, str]:
        """As of a suite; before the upgrade with the previous release's files before those that are installed."""
        path = ":".join(f"{self._release}{part}" for part in ("", "/shared", "/services"))
        return {
            **super().environment(settings),
            **({"PYTHONPATH": path} if self.home == self._release else {}),
        }

    def command(self, *arguments: str) -> str:
        """What a command of the release says."""
        env = {**os.environ, **self.environment({})}
        command = [sys.executable, "-m", "triumvir.cli", *arguments]
        return subprocess.run(
            command, env=env, cwd=self.home, check=True, text=True, stdout=subprocess.PIPE
        ).stdout


@contextmanager
def two_releases(servers: ServerSet) -> Iterator[TwoReleases]:
    """The previous release, with its schema and the laboratory's workflows, and nothing running yet."""
    folder = leftovers.make_temporary()
    with ExitStack() as stack:
        stack.callback(folders.remove, folder)
        suite = TwoReleases(
            servers,
            stack.enter_context(servers.vhost()),
            stack.enter_context(servers.database(migrated=False)),
            folder,
        )
        stack.callback(suite.close)
        suite.command("migrate")
        suite.command("workflows", "apply", f"{LAB}:WORKFLOWS")
        yield suite
