"""Claims: takes claimable orders, fair by client, as many as their agents have room for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from triumvir.lifecycle import Claimed, Event
from triumvir.runtime.batches import FEW
from triumvir.store.orders import Found
from triumvir.store.statements import Connection, statement
from triumvir.telemetry import metrics
from triumvir_scheduler.commands import asked_of, mark_taken
from triumvir_scheduler.stage import Stage, is_refused

OLDEST_UNCONFIRMED: Final = 1.0
"""Seconds. With publishes older than this, this process takes nothing more on."""

LOOK_SECONDS: Final = 1.0
"""Everything is looked at so often at least, whatever the hints name."""


class Claims:
    """The claim loop's step."""

    def __init__(self, stage: Stage, limit: int, unconfirmed_age: Callable[[], float]) -> None:
        self._stage = stage
        self._windows = stage.windows
        self._limit = limit
        self._unconfirmed_age = unconfirmed_age
        self._looked_at = float("-inf")  # and found all there was
        self._starved = False

    async def step(self) -> bool:
        """One batch of claims; whether there may be more to claim at once."""
        if self._unconfirmed_age() > OLDEST_UNCONFIRMED:
            return False
        named = self._stage.claimable.take()
        await self._windows.refresh()
        if self._windows.claim_room() == 0:
            await self._windows.refresh(needed=True)
        room = min(self._limit, self._windows.claim_room())
        self._starved = room == 0
        if self._starved:
            return await self._begun_ones()
        if 0 < len(named) <= min(room, FEW) and await self._claim_named(named):
            return False
        clients, unread = await self._claim("claim_candidates", room)
        self._looked_at = time.monotonic() if len(clients) < room else float("-inf")
        if unread:
            return await self._stage.fetch(unread)
        return len(clients) == room or len(set(clients)) > 1  # of several, one may have more than its share

    async def _claim_named(self, named: Sequence[int]) -> bool:
        """Claims new orders by their numbers; whether no look at everything is needed. While nothing else waits, they
        are all there is, so nobody is passed over.
        """
        if time.monotonic() - self._looked_at > LOOK_SECONDS or self._windows.held_windows:
            return False
        events: dict[int, Event] = {no: Claimed() for no in named}
        if not await self._stage.at_once("claim", events, self._are_new):
            return False
        metrics.ORDERS_CLAIMED.add(len(named))
        return True

    def _are_new(self, found: Found) -> bool:
        """Whether these can be claimed as they are: due, untouched, nothing asked of them, their documents here."""
        return (
            not found.asked
            and not self._stage.payloads.to_fetch(found.records)
            and all(
                record.state == "pending"
                and record.attempt == 0
                and record.held_by is None
                and record.not_before is None
                for record in found.records.values()
            )
        )

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
