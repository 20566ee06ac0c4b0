"""Claims: takes claimable orders, fair by client, as many as their agents have room for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from triumvir.lifecycle import Claimed, Event
from triumvir.store.statements import Connection, statement
from triumvir.telemetry import metrics
from triumvir_scheduler.commands import asked_of, mark_taken
from triumvir_scheduler.stage import Stage, is_refused

OLDEST_UNCONFIRMED: Final = 1.0
"""Seconds. With publishes older than this, this process takes nothing more on."""


class Claims:
    """The claim loop's step."""

    def __init__(self, stage: Stage, limit: int, unconfirmed_age: Callable[[], float]) -> None:
        self._stage = stage
        self._windows = stage.windows
        self._limit = limit
        self._unconfirmed_age = unconfirmed_age
        self._starved = False

    async def step(self) -> bool:
        """One batch of claims; whether there may be more to claim at once."""
        if self._unconfirmed_age() > OLDEST_UNCONFIRMED:
            return False
        await self._windows.refresh()
        if self._windows.claim_room() == 0:
            await self._windows.refresh(needed=True)
        room = min(self._limit, self._windows.claim_room())
        self._starved = room == 0
        if self._starved:
            return await self._begun_ones()
        clients, unread = await self._claim("claim_candidates", room)
        if unread:
            return await self._stage.fetch(unread)
        return len(clients) == room or len(set(clients)) > 1  # of several, one may have more than its share

    async def _begun_ones(self) -> bool:
        """No new order can be sent to an agent; one at a later step, or to be undone, may need another agent. It is
        claimed, or held by the reason that shows why it waits.
        """
        if not self._windows.releasable():
            async with self._stage.look() as connection:
                if not await statement("begun_waits").value(connection):
                    return False
        clients, unread = await self._claim("begun_candidates", self._limit)
        if unread:
            return await self._stage.fetch(unread)
        return len(clients) == self._limit

    def wake_if_starved(self) -> None:
        """An answered request makes room: look again, if the last step found none."""
        if self._starved:
            self._stage.claimable.set()

    async def _claim(self, candidates: str, most: int) -> tuple[list[str], list[int]]:
        """The client of each order that was found claimable, and those whose documents have to be read first."""
        clients: list[str] = []
        nos: list[int] = []
        unread: list[int] = []
        try:
            async with self._stage.work("claim") as work:
                await self._lift_window_holds(work.connection)
                rows = await statement(candidates).rows(work.connection, most=most)
                unread = self._stage.payloads.to_fetch(row["no"] for row in rows)
                nos, clients = [row["no"] for row in rows], [row["client"] for row in rows]
                nos = [no for no in nos if no not in unread] if unread else nos
                asked = await asked_of(work.connection, nos)
                events: dict[int, list[Event]] = {no: [*asked.events(no), Claimed()] for no in nos}
                await self._stage.apply(work, events)
                await mark_taken(work.connection, asked)
        except Exception as error:
            if not is_refused(error):
                raise
            await self._stage.each("claim", nos, Claimed())
        metrics.ORDERS_CLAIMED.add(len(clients) - len(unread))
        return clients, unread

    async def _lift_window_holds(self, connection: Connection) -> None:
        for reason, most in self._windows.releasable().items():
            lifted = await statement("release_held").rows(connection, reason=reason, most=most)
            if len(lifted) < most:
                self._windows.held_windows.discard(reason)
