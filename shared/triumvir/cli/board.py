"""What a person sees while orders are sent and followed: a bar on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from collections import Counter
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.markup import escape as escaped
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from triumvir.cli.output import coloured, moment, note, stderr, stdout, table
from triumvir.contracts.messages import Status

PLAIN_LINE_SECONDS: Final = 10.0


class Board:
    """``with Board() as board``; everything printed meanwhile must go through it, or it tears the bar."""

    def __init__(self) -> None:
        self._lines = stdout()
        self._console: Console = self._lines if sys.stdout.isatty() else stderr()
        self._progress = Progress(
            TextColumn("{task.description:9}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._next_plain_line = time.monotonic() + PLAIN_LINE_SECONDS

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def bar(self, what: str, total: int | None) -> TaskID:
        """A bar from 0 to ``total``; None if that is not known yet."""
        return self._progress.add_task(what, total=total, counts="")

    def move(self, bar: TaskID, completed: int, counts: str = "", *, total: int | None = None) -> None:
        """Move a bar; without a terminal a line is written now and then."""
        if total is not None:
            self._progress.update(bar, total=total)
        self._progress.update(bar, completed=completed, counts=counts)
        if not self._console.is_terminal and time.monotonic() >= self._next_plain_line:
            self._next_plain_line = time.monotonic() + PLAIN_LINE_SECONDS
            note(f"{self._progress.tasks[bar].description}: {completed} ({counts})")

    def complain(self, text: str) -> None:
        """One line about something that went wrong, on standard error."""
        complaints = self._console if self._console.is_terminal else stderr()
        complaints.print(f"[red]{escaped(text)}[/red]", soft_wrap=True)

    def show(self, status: Status) -> None:
        """One status, as it came."""
        self._lines.print(status_line(status), soft_wrap=True)

    def conclude(self, text: str) -> None:
        """The last line of result."""
        self._lines.print(escaped(text), soft_wrap=True)

    def close_with(self, counts: Counter[str]) -> None:
        """The closing table: how many orders stand at each status. To be called after the context."""
        closing = table("status", "orders")
        for name, count in counts.most_common():
            closing.add_row(coloured(name), str(count))
        self._lines.print(closing)


def status_line(status: Status) -> str:
    """``2026-01-01 12:00:00.000Z  536365  held  step charge: why``, coloured."""
    about = " ".join(
        part
        for part in (
            f"{status.step}:" if status.step else "",
            (status.detail or "").removeprefix(f"{status.status}: ") if status.status != "received" else "",
        )
        if part
    )
    line = f"{moment(status.at)}  {escaped(status.order_id)}  {coloured(status.status)}"
    return f"{line}  {escaped(about)}" if about else line
