"""What is shown of a bulk: its preview, how far it is, what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from triumvir.cli.output import NONE, coloured, note, say, show_rows, stderr
from triumvir.contracts.names import order_key
from triumvir.store import bulks
from triumvir.store.bulks import Bulk, Tally
from triumvir.store.statements import Connection

SAMPLE: Final = 5
MOST_FAILURES: Final = 20
_OUTCOMES: Final = {"refused": "[yellow]refused[/yellow]", "fell_back": "[bold red]rests again[/bold red]"}


@dataclass(frozen=True, slots=True)
class Preview:
    """What was selected. ``groups``: how many of each kind; ``sample``: some of them."""

    bulk: Bulk
    groups: Sequence[Mapping[str, Any]]
    sample: Sequence[Mapping[str, Any]]


async def preview(connection: Connection, bulk: Bulk) -> Preview:
    """Looks at what was selected."""
    return Preview(
        bulk,
        await bulks.look(connection, "groups", bulk),
        await bulks.look(connection, "sample", bulk, most=SAMPLE),
    )


def draw(shown: Preview) -> None:
    """How many of what, and some of them."""
    bulk = shown.bulk
    count = "1 order" if bulk.orders == 1 else f"{bulk.orders} orders"
    say(f"bulk {bulk.id}: {bulk.action} {count}, selected by {bulk.who}: {bulk.reason}")
    say("")
    show_rows(
        ("orders", "state", "workflow", "step"),
        (
            (str(row["orders"]), coloured(row["state"]), _workflow(row), escape(row["step"] or NONE))
            for row in shown.groups
        ),
        nothing="none",
    )
    names = [order_key(row["client"], row["order_id"]) for row in shown.sample]
    more = ", …" if bulk.orders > len(names) else ""
    say(f"\nsuch as {', '.join(names)}{more}")


def _workflow(row: Mapping[str, Any]) -> str:
    return f"{row['workflow']} v{row['version']}"


def told(tally: Tally) -> str:
    """``412 done, 3 refused, 0 rest again, 85 to go``."""
    left = tally.unasked + tally.waiting
    return (
        f"{tally.done} done, {tally.refused} refused, {tally.fell_back} rest again"
        f"{f', {left} to go' if left else ''}"
    )


def show_failures(failures: Sequence[Mapping[str, Any]], tally: Tally) -> None:
    """Which were not moved, or did not stay so, and why."""
    count = tally.refused + tally.fell_back
    if not count:
        return
    say("")
    show_rows(
        ("order", "outcome", "why"),
        (
            (
                escape(order_key(row["client"], row["order_id"])),
                _OUTCOMES[row["outcome"]],
                escape(row["detail"] or ""),
            )
            for row in failures
        ),
        nothing="",
    )
    if count > len(failures):
        note(f"{count - len(failures)} more; all of them: orders bulk show ID --json")


class Bar:
    """A progress bar on standard error; nothing where that is no terminal."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total, told="")

    def show(self, tally: Tally) -> None:
        """As far as it is now."""
        self._progress.update(self._task, completed=tally.settled, told=told(tally))


@contextmanager
def bar(bulk: Bulk) -> Iterator[Bar]:
    """The bar of one run."""
    console = stderr()
    columns = (
        SpinnerColumn(),
        TextColumn(f"{bulk.action} {bulk.id}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[told]}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Bar(progress, bulk.orders)
