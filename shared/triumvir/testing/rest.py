"""Where orders came to rest, and what is left over once nothing moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from triumvir.broker import ALERTS, WAKE, client_of_status_queue, dead_queue
from triumvir.broker.admin import QueueDepth
from triumvir.contracts.codec import order_id_of
from triumvir.contracts.messages import OrderSubmit
from triumvir.contracts.names import order_key
from triumvir.lifecycle import END, RESTING
from triumvir.testing.evidence import Evidence
from triumvir.testing.findings import Finding
from triumvir.testing.snapshot import Snapshot

_DEAD: Final = dead_queue("")


def ends(snapshot: Snapshot, evidence: Evidence) -> Iterator[Finding]:
    """A1: every order is in an end state, or rests and the operators were told."""
    for key, facts in snapshot.orders.items():
        if facts.state in RESTING:
            if evidence.alerts is not None and key not in evidence.alerts:
                yield Finding("A1", key, f"rests in {facts.state}, and no alert was raised")
        elif facts.state not in END:
            held = f", held by {facts.record['held_by']}" if facts.record["held_by"] else ""
            yield Finding("A1", key, f"is still {facts.state}{held}")


def submissions(snapshot: Snapshot, evidence: Evidence) -> Iterator[Finding]:
    """A7: what the broker confirmed became an order. (A refused one is no accepted one until it is replayed.)"""
    for key in sorted(set(evidence.accepted) - set(snapshot.orders)):
        yield Finding("A7", key, "its submission was confirmed, and there is no such order")
    for key in sorted(set(snapshot.documents) - set(snapshot.orders)):
        yield Finding("A7", key, "its document has no state record")
    for key, facts in snapshot.orders.items():
        if key not in snapshot.documents:
            yield Finding("A7", key, "its document is missing")
        elif snapshot.documents[key] != facts.record["digest"]:
            yield Finding("A7", key, "its document is that of another submission")
    for letter in snapshot.dead_letters:
        if letter["settlement"] == "replayed" and letter["type"] == OrderSubmit.TYPE:
            key = order_key(letter["client"], order_id_of(letter["body"]) or "")
            if key not in snapshot.orders:
                yield Finding(
                    "A7", key, f"dead letter {letter['id']} was replayed, and there is no such order"
                )


def leftovers(snapshot: Snapshot) -> Iterator[Finding]:
    """A8, in the store."""
    left = snapshot.leftovers
    for name, what in (
        ("outbox", "outbox rows"),
        ("commands", "commands not taken"),
        ("marks", "marked deliveries"),
        ("replays", "replays not answered"),
        ("replies", "replies of early acknowledged requests not sent"),
    ):
        if left[name]:
            yield Finding("A8", None, f"{left[name]} {what} are left")
    if left["admitted"] != left["open"]:
        yield Finding(
            "A8", None, f"admission counts {left['admitted']} open orders, there are {left['open']}"
        )
    for session in snapshot.idle_sessions:
        yield Finding(
            "A8", None, f"{session['application_name']} is {session['state']} for {session['seconds']:.1f} s"
        )


def depths(queues: Mapping[str, QueueDepth]) -> Iterator[Finding]:
    """A8, at the broker: nothing waits but what is kept for people and clients, and nothing is unacknowledged."""
    for name, depth in sorted(queues.items()):
        kept = name in (ALERTS, WAKE) or name.endswith(_DEAD) or client_of_status_queue(name) is not None
        if depth.ready and not kept:
            yield Finding("A8", None, f"{depth.ready} messages wait in {name}")
        if depth.unacknowledged:
            yield Finding("A8", None, f"{depth.unacknowledged} messages of {name} are unacknowledged")


def dead_letters(snapshot: Snapshot, evidence: Evidence) -> Iterator[Finding]:
    """A9: what was set aside was meant to be. One that was replayed is accepted after all."""
    if evidence.expected_dead is None:
        return
    for letter in snapshot.dead_letters:
        if letter["settlement"] != "replayed" and letter["message_id"] not in evidence.expected_dead:
            said = f"{letter['queue']}: {letter['reason']}: {letter['detail']}"
            yield Finding("A9", None, f"{letter['message_id']} was set aside: {said}")
