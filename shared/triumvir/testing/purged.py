"""Purged orders: nothing of them is left but what answers the same submission."""

from __future__ import annotations

from collections.abc import Iterator

from triumvir.lifecycle import END, STATUS_OF_STATE
from triumvir.testing.findings import Finding
from triumvir.testing.history import ASIDE
from triumvir.testing.snapshot import OrderFacts, Snapshot


def purged(snapshot: Snapshot) -> Iterator[Finding]:
    """Only what has ended was purged, wholly, and its last status still stands; no other document is empty."""
    for key, facts in snapshot.orders.items():
        if facts.purged:
            yield from _remains(key, facts)
            if not facts.record["document_left"] and key not in snapshot.emptied:
                yield Finding("A8", key, "was purged, and its payload is left")
        elif key in snapshot.emptied:
            yield Finding("A7", key, "its document is empty, and it was not purged")


def _remains(key: str, facts: OrderFacts) -> Iterator[Finding]:
    if facts.state not in END:
        yield Finding("A1", key, f"was purged, and is {facts.state}")
        return
    begun = [row for row in facts.inbox.values() if row["state"] != "fenced"]
    for name, rows in (("steps", facts.steps), ("inbox rows", begun)):
        if rows:
            yield Finding("A8", key, f"was purged, and {len(rows)} {name} are left")
    told = [row["status"] for row in facts.history if row["sequence"] is not None]
    standing = [status for status in told if status not in ASIDE]
    if not told or standing not in ([], [STATUS_OF_STATE[facts.state]]):
        yield Finding("A6", key, f"was purged as {facts.state}, and answers {told}")
