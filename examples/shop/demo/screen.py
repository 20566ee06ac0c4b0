"""What the demo shows: a bar and some sample lines on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from shop.demo.following import Following

SAMPLES: Final = 3
"""So many lines are shown of each status; the bar counts them all."""
PLAIN_LINE_SECONDS: Final = 5.0
WORTH_TELLING: Final = frozenset({"retrying", "held", "compensating", "compensated", "failed", "rejected"})


class Screen:
    """An ``async with`` is not needed: ``with Screen(console, total)``, then ``told`` for each status."""

    def __init__(self, console: Console, total: int) -> None:
        self.console = console
        self.following = Following(total, self._told)
        self._samples: dict[str, int] = {}
        self._next_plain_line = 0.0
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("orders", total=total, counts="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
        self.console.print(self._summary(), highlight=False)

    def say(self, text: str) -> None:
        """One line of what the demo does itself."""
        self.console.print(f"[bold]{text}[/bold]", highlight=False)

    def _told(self, order_id: str, status: str, detail: str | None) -> None:
        shown = self._samples.get(status, 0)
        if status in WORTH_TELLING and shown < SAMPLES:
            self._samples[status] = shown + 1
            self.console.print(
                f"  {order_id} {status}: {detail or ''}".rstrip(" :"), markup=False, highlight=False
            )
        self._progress.update(self._task, completed=self.following.ended, counts=self._counts())
        if not self.console.is_terminal and time.monotonic() >= self._next_plain_line:
            self._next_plain_line = time.monotonic() + PLAIN_LINE_SECONDS
            self.console.print(self._summary(), highlight=False)

    def _counts(self) -> str:
        return ", ".join(f"{count} {status}" for status, count in sorted(self.following.counts().items()))

    def _summary(self) -> str:
        return f"{self.following.ended} of {self.following.total} orders ended ({self._counts()})"
