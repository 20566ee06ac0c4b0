"""Processes known by pid and start time, so that a reused pid is never taken for one of ours."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from triumvir.errors import ConfigurationError

_POLL_SECONDS = 0.02


class ProcessIdentity(NamedTuple):
    """One process: no other ever had, or will have, both numbers until the next boot."""

    pid: int
    started: int
    """Start time in clock ticks since boot."""


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of the process that runs as ``pid`` now; None when there is none, or only its zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold blanks; the fields are counted after it.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else ProcessIdentity(pid, int(fields[19]))


def is_alive(process: ProcessIdentity) -> bool:
    """Whether this very process still runs."""
    return identify(process.pid) == process


def send(process: ProcessIdentity, number: signal.Signals) -> None:
    """Signal this very process; nothing happens when it is gone."""
    if is_alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def end(process: ProcessIdentity, first: signal.Signals, *, within: float) -> None:
    """Signal ``first``, and SIGKILL when it still runs after ``within`` seconds. Returns when it is gone."""
    for number, seconds in ((first, within), (signal.SIGKILL, 10.0)):
        send(process, number)
        if wait_until(lambda: not is_alive(process), within=seconds):
            return
    raise ConfigurationError(f"process {process.pid} does not end; it may hang in the kernel")


def wait_until(condition: Callable[[], bool], *, within: float) -> bool:
    """Poll ``condition`` for at most ``within`` seconds; its last answer."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


class Child:
    """A server process started here: its own session, standard input closed, output in a file."""

    def __init__(
        self,
        command: list[str],
        *,
        env: dict[str, str],
        output: Path,
        cwd: Path,
        user: int | None = None,
        group: int | None = None,
    ) -> None:
        with output.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=user,
                group=group,
                extra_groups=[] if user is not None else None,
            )
        identity = identify(self._process.pid)
        self.identity = identity or ProcessIdentity(self._process.pid, -1)

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs; reaps it once it has ended."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        if self.exit_code() is None:
            self._process.send_signal(number)

    def end(self, first: signal.Signals, *, within: float) -> int:
        """Signal ``first``, SIGKILL after ``within`` seconds; the exit code."""
        self.send(first)
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait(10)


def tail(path: Path, lines: int = 20) -> str:
    """The last lines of a log, for an error message; empty when there is no such file."""
    if not path.is_file():
        return ""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
