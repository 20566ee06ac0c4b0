"""Pauses of one order: it stands still until an operator lets it go on, and nothing of that counts against it.

What is under way when the pause comes runs to its answer or its deadline; then the order is held. Workflows and agents
are paused by what a Moment says, see ``Moment.paused`` and ``Moment.hold_reason``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from triumvir.lifecycle.dispatch import hold
from triumvir.lifecycle.draft import PAUSED, Draft
from triumvir.lifecycle.events import OperatorAsked
from triumvir.lifecycle.record import OrderRecord
from triumvir.lifecycle.states import END, LIVE
from triumvir.lifecycle.waiting import waiting_step

_MAY_BE_HELD: Final = ("pending", "compensating")


def pause(draft: Draft, asked: OperatorAsked) -> None:
    """The order stands still from its next rest on. A second pause changes nothing, and says whose the first was."""
    record, by = draft.record, asked.by
    if record.state not in LIVE:
        draft.move(f"pause by {by} refused: the order is {record.state}")
    elif record.paused_at is not None:
        draft.move(f"pause by {by}: it is paused already, by {record.paused_by}")
    else:
        signed = f"{by}{f': {asked.reason}' if asked.reason else ''}"
        at_once = record.locked_by is None or waiting_step(record) is not None
        then = "" if at_once else "; takes effect at the answer or the deadline"
        draft.move(f"paused by {signed}{then}", paused_at=draft.moment.now, paused_by=signed)


def unpause(draft: Draft, asked: OperatorAsked) -> None:
    """The order goes on. The next claim brings a fresh deadline; a back-off has as long to run as when it was held."""
    record, by = draft.record, asked.by
    if record.paused_at is None:
        draft.move(f"unpause by {by}: it is not paused")
        return
    held = record.held_by == PAUSED
    draft.move(
        f"unpaused by {by}{f': {asked.reason}' if asked.reason else ''}",
        paused_at=None,
        paused_by=None,
        held_by=None if held else record.held_by,
        held_at=None if held else record.held_at,
        not_before=_left_to_wait(draft) if held else record.not_before,
    )


def stand_still(draft: Draft) -> None:
    """Once an event is decided: a paused order that nothing is under way for is held, and one that ended is free."""
    record = draft.record
    if record.paused_at is None or not draft.moved:
        return
    if record.state in END:
        draft.record = replace(record, paused_at=None, paused_by=None)
    elif _nothing_under_way(record) and record.held_by != PAUSED:
        hold(draft, PAUSED)


def _nothing_under_way(record: OrderRecord) -> bool:
    """No request that could be answered; a wait stops at once and keeps the time it has left."""
    return waiting_step(record) is not None or (record.state in _MAY_BE_HELD and record.locked_by is None)


def _left_to_wait(draft: Draft) -> datetime | None:
    """When a back-off ends that was cut short by the hold: no later than it would have, counted from now."""
    record = draft.record
    if record.not_before is None or record.held_at is None or record.not_before <= record.held_at:
        return record.not_before
    return draft.moment.now + (record.not_before - record.held_at)
