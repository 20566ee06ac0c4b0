"""Timers: requests that were not answered are sent again when their time has come."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from triumvir.lifecycle import RetryDue, Revived
from triumvir.store import orders
from triumvir.store.session import Session
from triumvir.store.statements import statement
from triumvir_scheduler.stage import Stage, is_refused

UNHEARD: Final = "the commit was not heard of, and nothing may have been sent"


class Timers:
    """The timer loop's step."""

    def __init__(self, stage: Stage, session: Session, limit: int, interval: timedelta) -> None:
        self._stage = stage
        self._session = session
        self._limit = limit
        self._interval = interval.total_seconds()

    async def step(self) -> bool:
        """Sends what is due; with nothing due, sleeps until the next timer if that comes before the next poll."""
        await self._revive_unheard()
        async with self._session.connection() as connection:
            seconds = await statement("next_timer").value(connection)
        if seconds is None or seconds >= self._interval:
            return False
        if seconds > 0:
            await asyncio.sleep(seconds)
        return await self._send_due() > 0

    async def _revive_unheard(self) -> None:
        """What a batch that raised may have committed without sending it comes soon, not after its whole interval."""
        moves = self._stage.unheard.take()
        if not moves:
            return
        try:
            async with self._stage.work("timer") as work:
                await orders.lock(work.connection, [move.no for move in moves])
                rows = await statement("landed_moves").rows(
                    work.connection,
                    nos=[move.no for move in moves],
                    ns=[move.n for move in moves],
                    ats=[move.at for move in moves],
                    locks=[move.lock for move in moves],
                    sent_at=[move.sent_at for move in moves],
                    retries=[move.retries for move in moves],
                )
                await self._stage.apply(work, {row["no"]: [Revived(UNHEARD)] for row in rows})
        except Exception:
            self._stage.unheard.give_back(moves)
            raise

    async def _send_due(self) -> int:
        """How many were sent; none if all that are due are in the hands of somebody else."""
        nos: list[int] = []
        unread: list[int] = []
        try:
            async with self._stage.work("timer") as work:
                rows = await statement("due_timers").rows(work.connection, most=self._limit)
                unread = self._stage.payloads.to_fetch(row["no"] for row in rows)
                nos = [row["no"] for row in rows if row["no"] not in unread]
                await self._stage.apply(work, {no: [RetryDue()] for no in nos})
        except Exception as error:
            if not is_refused(error):
                raise
            await self._stage.each("timer", nos, RetryDue())
        await self._stage.fetch(unread)
        return len(nos) + len(unread)
