"""How commands speak: results on standard output, everything else on standard error."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import orjson
import uvloop
from rich import box
from rich.console import Console
from rich.table import Table

_T = TypeVar("_T")
_UNITS: Final = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
_PIPE_WIDTH: Final = 200

NONE: Final = "-"
"""Stands for what is not there."""

STATE_STYLES: Final = {
    "pending": "cyan", "processing": "blue", "compensating": "yellow",
    "error": "bold red", "compensation_failed": "bold red",
    "processed": "green", "compensated": "yellow", "cancelled": "dim", "closed": "dim",
    "completed": "green", "failed": "bold red", "rejected": "bold red", "retrying": "yellow", "held": "yellow",
    "running": "blue", "undoing": "yellow", "undone": "yellow", "undo_failed": "bold red",
    "skipped": "dim",
}  # fmt: skip
"""Colours of states and statuses; an unknown one has none."""


def stdout() -> Console:
    """For results. In a pipe lines are long instead of wrapped."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def stderr() -> Console:
    """For progress, hints and complaints."""
    return Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else _PIPE_WIDTH)


def say(text: str) -> None:
    """One line of result, as it stands."""
    stdout().print(text, markup=False, soft_wrap=True)


def note(text: str) -> None:
    """One line for people, on standard error."""
    stderr().print(text, markup=False, soft_wrap=True)


def write_json(value: Any) -> None:
    """A value, or a dataclass, as one JSON document."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE
    _write(orjson.dumps(value, default=str, option=options))


def write_json_line(value: Any) -> None:
    """A value as one line of NDJSON, at once."""
    _write(orjson.dumps(value, default=str, option=orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE))


def _write(data: bytes) -> None:
    sys.stdout.write(data.decode())
    sys.stdout.flush()


def table(*columns: str) -> Table:
    """A plain table with these headings."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def show_rows(columns: Iterable[str], rows: Iterable[Iterable[str]], *, nothing: str) -> None:
    """A table of rich texts, or ``nothing`` in words on standard error."""
    made = table(*columns)
    for row in rows:
        made.add_row(*row)
    if made.row_count:
        stdout().print(made)
    else:
        note(nothing)


def coloured(state: str | None) -> str:
    """A state or status in its colour."""
    style = STATE_STYLES.get(state or "", "")
    return f"[{style}]{state}[/{style}]" if style else state or NONE


def moment(at: datetime | None) -> str:
    """A time in UTC, to the millisecond."""
    if at is None:
        return NONE
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def duration(span: timedelta) -> str:
    """A span of time in words: ``0.4 s``, ``12 s``, ``3 min``, ``5 h``, ``2 d``."""
    seconds = abs(span.total_seconds())
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def until(at: datetime, now: datetime) -> str:
    """How far off a time is: ``in 4.0 s`` or ``2 min ago``."""
    return f"in {duration(at - now)}" if at > now else f"{duration(now - at)} ago"


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a command's asynchronous part to its end."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
