"""A page's console blocks, typed into shells as its reader would, and what they answer."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.house.pages import Block
from tests.house.source import ROOT
from tests.waiting import eventually_blocking

PROMPT = "$ "
CTRL_C = "^C"
ANYTHING = "…"
"""Within a line: any text. As a line: any lines."""
_END = "the end of the command:"
_JOB_ENDED = re.compile(r"^\S+: line \d+: +\d+ (Killed|Terminated) .*\n", re.MULTILINE)
"""What a shell says of its background jobs, whenever it comes to it."""


class Typed(NamedTuple):
    """A command, and the lines that the page shows after it."""

    command: str
    answer: str


def typed(block: Block) -> list[Typed]:
    """What a console block has typed: lines after the prompt, with those that continue them after a backslash."""
    commands: list[Typed] = []
    for line in block.text.splitlines():
        if line.startswith(PROMPT) or line == CTRL_C:
            commands.append(Typed(line.removeprefix(PROMPT), ""))
            continue
        command, answer = commands.pop()
        if command.endswith("\\"):
            commands.append(Typed(f"{command}\n{line}", answer))
        else:
            commands.append(Typed(command, f"{answer}{line}\n"))
    return commands


def fits(shown: str, answered: str) -> bool:
    """Whether an answer is the one that a page shows, whatever the blanks."""
    lines = [_words(line) for line in shown.splitlines() if line.strip()]
    pattern = "".join(
        r"(?:.*\n)*" if line == ANYTHING else re.escape(line).replace(ANYTHING, ".*") + r"\n"
        for line in lines
    )
    said = "".join(f"{_words(line)}\n" for line in answered.splitlines() if line.strip())
    return re.fullmatch(pattern, said) is not None


def _words(line: str) -> str:
    """Without the widths of columns, which follow what stands in them."""
    return re.sub("─+", "─", " ".join(line.split()))


class Terminal:
    """A shell in the checkout. Its answers are kept in ``folder/<name>.terminal``."""

    def __init__(self, name: str, folder: Path) -> None:
        self._screen = folder / f"{name}.terminal"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        with self._screen.open("w") as screen:
            self._shell = subprocess.Popen(
                ["bash"],
                cwd=ROOT,
                env={**environment, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.PIPE,
                stdout=screen,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        self._read = 0

    def run(self, command: str, *, within: float = 180) -> tuple[str, int]:
        """Type a command, wait until it has ended; what it answered, and its exit code."""
        self.type(f"{command}\nprintf '{_END} %s\\n' $?")

        def ended() -> re.Match[str] | None:
            return re.search(rf"{_END} (\d+)\n", self._unread())

        end = eventually_blocking(ended, within=within, what=f"the end of: {command}")
        assert end is not None
        answer = self._unread()[: end.start()]
        self._read += len(answer) + len(end[0])
        return _JOB_ENDED.sub("", answer), int(end[1])

    def run_until(self, command: str, shown: str, *, within: float = 180) -> None:
        """Type a command that goes on, and wait until it has answered what is ``shown``."""
        self.type(command)
        eventually_blocking(
            lambda: fits(shown, self._unread()), within=within, what=f"{shown!r} of {command!r}"
        )
        self._read = len(self._seen())

    def type(self, text: str) -> None:
        """Type lines, and press return."""
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{text}\n")
        self._shell.stdin.flush()

    def interrupt(self) -> tuple[str, int]:
        """Ctrl-C; what the command that went on answers to it, and its exit code."""
        self._send(signal.SIGINT)
        return self.run("")

    def close(self) -> None:
        """End what still runs in it, as the window does when it is closed."""
        self._send(signal.SIGTERM)
        try:
            eventually_blocking(self._is_over, within=120, what="the end of what runs in a terminal")
        finally:
            self._send(signal.SIGKILL)
            self._shell.communicate()

    def _is_over(self) -> bool:
        return self._shell.poll() is not None and not self._send(0)

    def _send(self, number: int) -> bool:
        try:
            os.killpg(self._shell.pid, number)
        except ProcessLookupError:
            return False
        return True

    def _unread(self) -> str:
        return self._seen()[self._read :]

    def _seen(self) -> str:
        """All that was written so far, but for a character of which only a part is."""
        return self._screen.read_bytes().decode(errors="ignore")


@contextmanager
def terminals() -> Iterator[dict[str, Terminal]]:
    """Terminals by name, empty at first; all are closed in the end, the latest first."""
    opened: dict[str, Terminal] = {}
    try:
        yield opened
    finally:
        for terminal in reversed(opened.values()):
            terminal.close()
