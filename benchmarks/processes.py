"""The processes under test: started with their output in a file, ready when they say so, ended by SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import ceiling
from triumvir.local.processes import Child, tail, wait_until

READY_SECONDS: Final = 30.0
STOP_SECONDS: Final = 25.0
SERVICES: Final = ("submitter", "scheduler", "agent", "supervisor")


@dataclass(frozen=True)
class Process:
    """One process of a system that is measured."""

    name: str
    child: Child
    log: Path
    is_ready: Callable[[], bool]

    @property
    def pid(self) -> int:
        return self.child.pid

    def await_ready(self) -> None:
        """Raises RuntimeError with the end of its output if it does not get ready."""
        wait_until(lambda: self.is_ready() or self.child.exit_code() is not None, within=READY_SECONDS)
        if self.child.exit_code() is not None or not self.is_ready():
            raise RuntimeError(f"{self.name} did not get ready:\n{tail(self.log)}")

    def end(self) -> None:
        self.child.end(signal.SIGTERM, within=STOP_SECONDS)


def start_service(
    name: str, folder: Path, settings: Mapping[str, str], profile: Path | None = None, number: int = 1
) -> Process:
    """A service by its own command; with ``profile`` under cProfile, which writes there when it ends. ``number`` tells
    several of one service apart.
    """
    label = name if number == 1 else f"{name} {number}"
    log, port = folder / f"{label}.log", folder / f"{label}.port"
    arguments = ["benchmarks.sample:agent"] if name == "agent" else []
    environment = {**os.environ, **settings, "TRIUMVIR_HEALTH_PORT_FILE": str(port)}
    command = [*_profiler(name, profile), "-m", "triumvir.cli", "run", name, *arguments]
    child = Child([sys.executable, *command], env=environment, output=log, cwd=Path.cwd())
    return Process(label, child, log, lambda: _answers(port))


def start_raw(role: str, folder: Path, url: str) -> Process:
    """One of the bare aio-pika processes."""
    log, ready = folder / f"raw-{role}.log", folder / f"raw-{role}.ready"
    command = [sys.executable, "-m", ceiling.__name__, role, url, str(ready)]
    child = Child(command, env=dict(os.environ), output=log, cwd=Path.cwd())
    return Process(f"raw {role}", child, log, ready.exists)


def end_all(processes: Sequence[Process]) -> None:
    """Asks all at once, then waits for each."""
    for process in processes:
        process.child.send(signal.SIGTERM)
    for process in processes:
        process.end()


def _profiler(name: str, profile: Path | None) -> list[str]:
    return [] if profile is None else ["-m", "cProfile", "-o", str(profile / f"{name}.pstats")]


def _answers(port: Path) -> bool:
    if not port.exists():
        return False
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port.read_text().strip()}/readyz", timeout=5
        ) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
