"""The ledger of a service: one JSON line per raw call and per outcome, in a file that outlives the process.

A line is handed to the kernel whole (``O_APPEND``) before anything is answered, so a killed service loses nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Direction = Literal["do", "undo"]


class Entry(BaseModel):
    """A line. ``call``: a request arrived. The other kinds settle a key for good, with the ``answer`` it gets.

    ``effect``: it was done; ``refused``: it never will be; ``nothing``: an undo found nothing to undo.
    ``amount`` counts what the service deals in (pieces, pounds), ``at`` is Unix time in seconds,
    ``call`` the number of the call under that key, ``body`` a digest of what was asked.
    """

    model_config = ConfigDict(frozen=True)
    kind: Literal["call", "effect", "refused", "nothing"]
    service: str
    order: str
    direction: Direction
    key: str
    call: int
    at: float
    amount: str = "0"
    body: str = ""
    status: int = 0
    answer: dict[str, Any] = {}


class Ledger:
    """The file, and what it adds up to. A ledger has one process that writes it."""

    def __init__(self, path: Path) -> None:
        self._calls: Counter[str] = Counter()
        self._settled: dict[str, Entry] = {}
        self._done: dict[str, Entry] = {}
        self._undone: set[str] = set()
        _cut_torn_line(path)
        self.entries: list[Entry] = []
        for entry in read(path):
            self._take(entry)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def append(self, entry: Entry) -> None:
        """Writes one line; it is in the file when this returns."""
        line = entry.model_dump_json().encode() + b"\n"
        written = os.write(self._file, line)
        if written != len(line):
            raise OSError(f"the ledger took {written} of {len(line)} bytes")
        self._take(entry)

    def close(self) -> None:
        os.close(self._file)

    def calls_of(self, key: str) -> int:
        """How often ``key`` was called."""
        return self._calls[key]

    def settled(self, key: str) -> Entry | None:
        """What was decided for ``key``, once it was."""
        return self._settled.get(key)

    def in_force(self, order: str) -> Entry | None:
        """The effect for ``order`` that is done and not undone."""
        return self._done.get(order)

    def is_undone(self, order: str) -> bool:
        """Whether an undo was accepted for ``order``, be it that it found nothing."""
        return order in self._undone

    def _take(self, entry: Entry) -> None:
        self.entries.append(entry)
        if entry.kind == "call":
            self._calls[entry.key] += 1
            return
        self._settled[entry.key] = entry
        if entry.direction == "undo":
            self._undone.add(entry.order)
            self._done.pop(entry.order, None)
        elif entry.kind == "effect":
            self._done[entry.order] = entry


def read(path: Path) -> list[Entry]:
    """The lines of a ledger, also of one that is being written: a last line without its end is left out."""
    if not path.exists():
        return []
    return [Entry.model_validate_json(line) for line in path.read_bytes().split(b"\n")[:-1]]


def _cut_torn_line(path: Path) -> None:
    """Takes away half a line left by a process that was killed while writing; nothing was answered for it."""
    if path.exists():
        text = path.read_bytes()
        os.truncate(path, text.rfind(b"\n") + 1)
