"""Doing what a page says: ``triumvir dev`` in one shell, commands in another."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import eventually_blocking

PROGRAMS = Path(sys.executable).parent
_ENVIRONMENT = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Writes what a page tells its reader to write."""
    for name, text in files.items():
        (folder / name).write_text(text)


class Shell:
    """A shell in ``folder`` that has sourced the file which ``triumvir dev`` names."""

    def __init__(self, folder: Path, sourced: str) -> None:
        self._folder = folder
        self._sourced = sourced

    def run(self, script: str, *, within: float = 180) -> str:
        """What the script prints. AssertionError, with all of it, unless it ends with exit code 0."""
        answer = subprocess.run(
            ["bash", "-ec", f"source {self._sourced}\n{script}"],
            cwd=self._folder,
            env=_ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=within,
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout

    @contextmanager
    def background(self, command: str) -> Iterator[subprocess.Popen[str]]:
        """A command that runs until the end of the block; it must stop by SIGTERM with exit code 0."""
        script = f"source {self._sourced}\nexec {command}"
        with _started(["bash", "-ec", script], self._folder, self._folder / "background.log") as process:
            yield process


@contextmanager
def dev(folder: Path, command: str) -> Iterator[Shell]:
    """``triumvir dev …`` as a page gives it, in ``folder``; a shell beside it once it says that it is ready."""
    log = folder / "dev.log"
    with _started(command.split(), folder, log) as process:

        def sourced() -> str | None:
            text = log.read_text()
            assert process.poll() is None, text
            found = re.search(r"^ +source (\S+)$", text, re.MULTILINE) if "ready" in text else None
            return found[1] if found else None

        file = eventually_blocking(sourced, within=180, what="triumvir dev")
        assert file is not None
        yield Shell(folder, file)


@contextmanager
def _started(command: list[str], folder: Path, log: Path) -> Iterator[subprocess.Popen[str]]:
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=_ENVIRONMENT, stdout=output, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield process
        finally:
            process.terminate()  # also after a failure: it ends what it started
            try:
                code = process.wait(120)
            finally:
                process.kill()
        assert code == 0, log.read_text()
