"""Orders that wait too long, unclaimed or held: counted, told once for each attempt, hinted to schedulers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from triumvir.lifecycle import Aged, AgedKind, Event
from triumvir.runtime import hints
from triumvir.runtime.applied import report
from triumvir.runtime.decisions import Decider
from triumvir.runtime.relay import Relay
from triumvir.settings import Settings
from triumvir.store.session import Session
from triumvir.store.statements import Row, statement
from triumvir.telemetry import metrics

PAGE: Final = 500
MOST_PAGES: Final = 10
"""Of one look; the next one goes on where it ended."""
MOST_TOLD: Final = 50
"""In one look: of a backlog of thousands operators need not hear at once."""
_SMALLEST: Final = -(2**63)
_FROM_THE_START: Final = ("", _SMALLEST, 0)
_STATEMENTS: Final[dict[AgedKind, str]] = {"unclaimed": "aged_unclaimed", "held": "aged_held"}


class Round:
    """One walk over all orders that wait for one kind of reason, in as many looks as it takes."""

    def __init__(self, kind: AgedKind, limit: timedelta) -> None:
        self.kind: AgedKind = kind
        self.limit = limit / timedelta(seconds=1)
        self.after = _FROM_THE_START
        self._found = 0

    def take(self, page: Sequence[Row], most: int) -> list[Row]:
        """Those of a page that wait too long. The last page of the walk tells how many there are."""
        aged = [row for row in page if row["waits"] is not None and row["waits"] >= self.limit]
        self._found += len(aged)
        if len(page) == most:
            self.after = page[-1]["key"], page[-1]["rank"], page[-1]["no"]
        else:
            metrics.ORDERS_AGED.set(self._found, self.kind)
            self.after, self._found = _FROM_THE_START, 0
        return aged

    @property
    def is_over(self) -> bool:
        """Whether the next page is the first one again."""
        return self.after == _FROM_THE_START


class AgedOrders:
    """Looks for them a few pages at a time."""

    def __init__(self, session: Session, relay: Relay, decider: Decider, settings: Settings) -> None:
        self._session = session
        self._relay = relay
        self._decider = decider
        self._rounds = (
            Round("unclaimed", settings.unclaimed_limit),
            Round("held", settings.held_limit),
        )

    async def step(self) -> bool:
        """One look of each kind."""
        for each in self._rounds:
            await self._look(each)
        return False

    async def _look(self, walk: Round) -> None:
        told, aged = 0, 0
        for _ in range(MOST_PAGES):
            found = walk.take(await self._read(walk), PAGE)
            aged += len(found)
            new = [row for row in found if not row["told"]][: MOST_TOLD - told]
            if new:
                await self._tell(walk.kind, new)
                told += len(new)
            if walk.is_over:
                break
        if aged and walk.kind == "unclaimed":
            await self._relay.send([hints.wake()], None)

    async def _read(self, walk: Round) -> list[Row]:
        key, rank, no = walk.after
        async with self._session.connection() as connection:
            return await statement(_STATEMENTS[walk.kind]).rows(
                connection, key=key, rank=rank, no=no, most=PAGE
            )

    async def _tell(self, kind: AgedKind, rows: Sequence[Row]) -> None:
        """Of those that still wait, and of which nobody told."""
        seconds = {row["no"]: int(row["waits"]) for row in rows}
        async with self._relay.transaction(self._session) as ride:
            connection = ride.connection
            locked = await statement("lock_aged").rows(
                connection, nos=list(seconds), histories=[row["history"] for row in rows], kind=kind
            )
            still = [row["no"] for row in locked]
            marked = await statement("mark_aged").rows(connection, nos=still, kind=kind)
            events: dict[int, Sequence[Event]] = {
                row["no"]: [Aged(kind, seconds[row["no"]])] for row in marked
            }
            applied = await self._decider.apply(connection, events) if events else None
        if applied is not None:
            report(applied)
            await self._relay.send(applied.messages, applied.outbox_id)
