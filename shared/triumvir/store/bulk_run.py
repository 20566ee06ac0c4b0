"""Running a bulk: asks at a rate, sees what comes of it, and stops where too much fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from triumvir.store import bulks
from triumvir.store.bulks import Bulk, Tally
from triumvir.store.statements import Connection, statement

TICK_SECONDS: Final = 0.25
LEAST_JUDGED: Final = 20
"""Fewer than these say nothing of a share."""


@dataclass(frozen=True, slots=True)
class Pace:
    """``rate``: orders a second, over all who run it; ``stop_at``: the share of failures in this run, from 0 to 1,
    above which it stops; ``patience``: seconds without any being taken after which it stops.
    """

    rate: float = 20.0
    stop_at: float = 0.2
    patience: float = 60.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is; ``stopped`` says why it goes no further, None while it does, or once it is over."""

    tally: Tally
    stopped: str | None = None


async def run(connection: Connection, bulk: Bulk, who: str, pace: Pace) -> AsyncIterator[Progress]:
    """Run it from where it is to its end. It may be cut off at any point and run again, by anybody."""
    since = await statement("present_time").value(connection)
    await bulks.note(
        connection, bulk, who, "begun", f"{pace.rate:g} a second, stops above {pace.stop_at:.0%} failures"
    )
    moved_at, wait = time.monotonic(), 0.0
    while True:
        asked = 0
        if wait <= 0:
            most = max(1, round(pace.rate * TICK_SECONDS))
            asked, wait = await bulks.ask_for_some(connection, bulk, who, most=most, rate=pace.rate)
        settled = await bulks.settle_some(connection, bulk)
        tally = await bulks.tally(connection, bulk, since)
        moved_at = time.monotonic() if asked or settled else moved_at
        stopped = _why_stop(tally, pace, time.monotonic() - moved_at)
        if stopped is not None or tally.is_over:
            await bulks.note(connection, bulk, who, "stopped" if stopped else "done", stopped or _told(tally))
            yield Progress(tally, stopped)
            return
        yield Progress(tally)
        pause = min(wait, TICK_SECONDS) if wait > 0 and tally.unasked else TICK_SECONDS
        await asyncio.sleep(pause)
        wait -= pause


def _why_stop(tally: Tally, pace: Pace, idle: float) -> str | None:
    if tally.is_over:
        return None
    if tally.settled_since >= LEAST_JUDGED and tally.failed_since > pace.stop_at * tally.settled_since:
        return f"{tally.failed_since} of {tally.settled_since} failed, more than {pace.stop_at:.0%}"
    if tally.waiting and idle >= pace.patience:
        return f"no scheduler has taken any of {tally.waiting} for {pace.patience:g} s"
    return None


def _told(tally: Tally) -> str:
    return f"{tally.done} done, {tally.refused} refused, {tally.fell_back} rest again"
