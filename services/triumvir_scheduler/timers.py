"""Timers: requests that were not answered are sent again when their time has come."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from triumvir.lifecycle import RetryDue
from triumvir.store.session import Session
from triumvir.store.statements import statement
from triumvir_scheduler.stage import Stage, is_refused


class Timers:
    """The timer loop's step."""

    def __init__(self, stage: Stage, session: Session, limit: int, interval: timedelta) -> None:
        self._stage = stage
        self._session = session
        self._limit = limit
        self._interval = interval.total_seconds()

    async def step(self) -> bool:
        """Sends what is due; with nothing due, sleeps until the next timer if that comes before the next poll."""
        async with self._session.connection() as connection:
            seconds = await statement("next_timer").value(connection)
        if seconds is None or seconds >= self._interval:
            return False
        if seconds > 0:
            await asyncio.sleep(seconds)
        return await self._send_due() > 0

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
