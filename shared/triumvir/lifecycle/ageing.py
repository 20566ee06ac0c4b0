"""Orders that wait longer than they should: nothing is moved, the operators are told."""

from __future__ import annotations

from triumvir.lifecycle.draft import Draft
from triumvir.lifecycle.events import AgedKind
from triumvir.lifecycle.states import LIVE


def aged(draft: Draft, kind: AgedKind, seconds: int) -> None:
    """An order that nobody runs waits for so many seconds; nothing if it does so no more, or for another reason."""
    record = draft.record
    waits: AgedKind = "unclaimed" if record.held_by is None else "held"
    if record.state not in LIVE or record.locked_by is not None or waits != kind:
        return
    if kind == "held":
        draft.move(f"held for {seconds} s: {record.held_by}")
        draft.alert("held-long")
    else:
        draft.move(f"due for {seconds} s, and no scheduler claimed it")
        draft.alert("unclaimed-long")
