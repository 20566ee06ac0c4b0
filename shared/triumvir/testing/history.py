"""The history of each order: legal arrows, rising tokens, numbered statuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from triumvir.contracts.messages import Status
from triumvir.lifecycle import END, RESTING, STATUS_OF_STATE, is_legal
from triumvir.store.statements import Row
from triumvir.testing.findings import Finding
from triumvir.testing.snapshot import OrderFacts, Snapshot
from triumvir.workflow import Wait

NEVER_AGAIN: Final = 2**63 - 1
ASIDE: Final = frozenset({"cancel_refused", "signalled", "signal_refused"})
"""Told to who asked, not of the order."""


def tokens(snapshot: Snapshot) -> Iterator[Finding]:
    """A4: what a superseded attempt would leave behind if it could still write."""
    for facts in snapshot.kept.values():
        yield from _chain(facts)
        yield from _steps(facts)
        yield from _inbox(facts)


def _chain(facts: OrderFacts) -> Iterator[Finding]:
    history, key = facts.history, facts.key
    numbers = [row["n"] for row in history]
    if numbers != list(range(1, facts.record["history"] + 1)):
        yield Finding("A4", key, f"history rows {_gaps(numbers)}, {facts.record['history']} were written")
    for row in history:
        before, after = row["from_state"], row["to_state"]
        if not is_legal(before, after):
            yield Finding("A4", key, f"illegal arrow {before} -> {after} ({row['why']})")
    for row, following in pairwise(history):
        if row["to_state"] != following["from_state"]:
            yield Finding(
                "A4",
                key,
                f"row {following['n']} begins in {following['from_state']}, not where {row['n']} ended",
            )
        if row["at"] > following["at"]:
            yield Finding("A4", key, f"row {following['n']} is older than row {row['n']}")
    if history and history[-1]["to_state"] != facts.state:
        yield Finding("A4", key, f"is {facts.state}, its history ends in {history[-1]['to_state']}")


def _steps(facts: OrderFacts) -> Iterator[Finding]:
    said = Counter((row["step_no"], row["why"]) for row in facts.history)
    for step_no, row in facts.steps.items():
        name = facts.step_name(step_no)
        if said[step_no, f"{name} completed"] > 1:
            yield Finding("A4", facts.key, f"{name} was completed {said[step_no, f'{name} completed']} times")
        undone, generations = said[step_no, f"{name} undone"], row["undo_generation"] + 1
        if undone > generations:
            yield Finding("A4", facts.key, f"{name} was undone {undone} times, {generations} were begun")
        if row["attempt"] > facts.record["attempt"]:
            yield Finding(
                "A4", facts.key, f"{name} is of attempt {row['attempt']}, a later one than the order's"
            )


def _inbox(facts: OrderFacts) -> Iterator[Finding]:
    for (step_no, direction), row in facts.inbox.items():
        name = facts.step_name(step_no)
        step = facts.steps.get(step_no)
        if row["fence"] > facts.record["fence"]:
            yield Finding("A4", facts.key, f"{direction} of {name} runs under a fence the order never had")
        if (
            direction == "do"
            and row["state"] == "succeeded"
            and (step is None or step["effect"] != "certain")
        ):
            yield Finding("A4", facts.key, f"{name} succeeded, and the order was never told")
        if direction == "undo" and row["state"] != "fenced" and not _is_closed(facts, step_no):
            yield Finding("A4", facts.key, f"{name} is being undone and may still be run")
        if step is not None and step["state"] == "skipped":
            yield Finding("A4", facts.key, f"{name} was skipped, and its {direction} was begun")
    for step_no, step in facts.steps.items():
        yield from _unrecorded(facts, step_no, step)
    yield from _left_out(facts)


def _left_out(facts: OrderFacts) -> Iterator[Finding]:
    """A processed order completed every step on its way, or skipped it by the condition that the step has, or its
    time-out led on.
    """
    way = facts.way
    for step_no, step in enumerate(facts.workflow.steps, start=1):
        row = facts.steps.get(step_no)
        state = "not begun" if row is None else row["state"]
        if step_no not in way:
            if row is not None and state != "signalled":
                yield Finding("A4", facts.key, f"{step.name} is {state}, and is not on the way of the order")
            continue
        led_on = row is not None and row["led_to"] is not None
        if facts.state == "processed" and state not in ("completed", "skipped") and not led_on:
            yield Finding("A4", facts.key, f"processed, and {step.name} is {state}")
        if state == "skipped" and step.when is None:
            yield Finding("A4", facts.key, f"{step.name} was skipped, and has no condition")


def _unrecorded(facts: OrderFacts, step_no: int, step: Row) -> Iterator[Finding]:
    """A step that was completed or undone stands so in the inbox; another attempt may not have overwritten it. What an
    operator did by hand stands nowhere else, and a wait needs no agent.
    """
    if step["by_hand"] or isinstance(facts.workflow.step(step_no), Wait):
        return
    for direction, holds in (("do", step["state"] == "completed"), ("undo", step["undo_state"] == "undone")):
        row = facts.inbox.get((step_no, "do" if direction == "do" else "undo"))
        if holds and (row is None or row["state"] != "succeeded"):
            state = "missing" if row is None else row["state"]
            yield Finding(
                "A4", facts.key, f"{direction} of {facts.step_name(step_no)} is done, its inbox row {state}"
            )


def _is_closed(facts: OrderFacts, step_no: int) -> bool:
    forward = facts.inbox.get((step_no, "do"))
    return forward is not None and forward["refuse_upto"] == NEVER_AGAIN


def statuses(snapshot: Snapshot, received: Mapping[str, Sequence[Status]] | None) -> Iterator[Finding]:
    """A6: numbers without gaps; every one arrived, as it was written; the last one is the state."""
    for facts in snapshot.kept.values():
        told = [row for row in facts.history if row["sequence"] is not None]
        numbers = [row["sequence"] for row in told]
        if numbers != list(range(1, facts.record["sequence"] + 1)):
            yield Finding(
                "A6", facts.key, f"statuses {_gaps(numbers)} of {facts.record['sequence']} were written"
            )
        standing = [row["status"] for row in told if row["status"] not in ASIDE]
        if facts.state in END | RESTING and standing[-1:] != [STATUS_OF_STATE[facts.state]]:
            yield Finding("A6", facts.key, f"is {facts.state}, the last status is {standing[-1:]}")
        if received is not None:
            yield from _arrived(facts, told, received.get(facts.key, ()))


def _arrived(facts: OrderFacts, told: Sequence[Row], received: Sequence[Status]) -> Iterator[Finding]:
    wanted = {row["sequence"]: row["status"] for row in told}
    got: dict[int, set[str]] = {}
    for status in received:
        got.setdefault(status.sequence, set()).add(status.status)
    for sequence, status in wanted.items():
        if sequence not in got:
            yield Finding("A6", facts.key, f"its client never got status {sequence}, {status}")
    for sequence, names in got.items():
        if sequence > 0 and names != {wanted.get(sequence)}:
            said = ", ".join(sorted(names))
            yield Finding(
                "A6",
                facts.key,
                f"its client got status {sequence} as {said}, written is {wanted.get(sequence)}",
            )


def _gaps(numbers: Sequence[int]) -> str:
    return f"{numbers[:20]}{'…' if len(numbers) > 20 else ''}"
