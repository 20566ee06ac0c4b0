"""What the demo shows: dated lines, and on a terminal a bar below them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from shop.demo.following import Following

SAMPLES: Final = 3
"""So many lines are shown of each status; the counts have them all."""
PLAIN_LINE_SECONDS: Final = 5.0


class Screen:
    """Lines begin with the seconds since this was made. Nothing is wrapped, so that lines can be searched."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._began = time.monotonic()
        self._shown: Counter[str] = Counter()
        self._next_plain_line = 0.0
        self._progress: Progress | None = None

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self._began

    def say(self, text: str, style: str = "bold") -> None:
        """One line."""
        self.console.print(
            f"{self.seconds:5.1f} s  {text}", style=style, markup=False, highlight=False, soft_wrap=True
        )

    @contextmanager
    def watching(self, total: int) -> Iterator[Following]:
        """Shows what is told of ``total`` orders: a few lines of each status, and the counts."""
        following = Following(total, self._told)
        self._next_plain_line = self.seconds + PLAIN_LINE_SECONDS
        if self.console.is_terminal:
            self._progress = Progress(
                TextColumn("         "),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[counts]}"),
                console=self.console,
                transient=True,
            )
            self._progress.add_task("orders", total=total, counts="")
            self._progress.start()
        try:
            yield following
        finally:
            if self._progress is not None:
                self._progress.stop()
                self._progress = None

    def _told(self, following: Following, order_id: str, status: str, detail: str | None) -> None:
        self._shown[status] += 1
        if self._shown[status] <= SAMPLES:
            why = "" if detail in (None, status) else detail
            self.say(f"  {order_id:<8} {status:<12} {why}".rstrip(), style="")
        if self._progress is not None:
            task = self._progress.task_ids[0]
            self._progress.update(task, completed=following.ended, counts=_counts(following))
        elif self.seconds >= self._next_plain_line or following.ended == following.total:
            self._next_plain_line = self.seconds + PLAIN_LINE_SECONDS
            self.say(
                f"{following.ended} of {following.total} orders at an end ({_counts(following)})", style=""
            )


def _counts(following: Following) -> str:
    return ", ".join(f"{count} {status}" for status, count in sorted(following.counts().items()))
