"""Revival: the requests of schedulers that fell silent are sent again soon, not when their retry would be due."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from triumvir.lifecycle import Revived
from triumvir.runtime.applied import report
from triumvir.runtime.decisions import Decider
from triumvir.runtime.relay import Relay
from triumvir.store.session import Session
from triumvir.store.statements import statement

PAGE: Final = 100


class Revival:
    """Brings forward what lapsed instances touched last. Any supervisor may, and each order is brought forward once:
    the decision makes it this supervisor's own. The instance is marked in the commit of its last page, so that what a
    dying supervisor left is found again.
    """

    def __init__(self, session: Session, relay: Relay, decider: Decider, page: int = PAGE) -> None:
        self._session = session
        self._relay = relay
        self._decider = decider
        self._page = page

    async def step(self) -> int:
        """Revives the orders of every instance whose lease lapsed; how many were looked at."""
        async with self._session.connection() as connection:
            lapsed = await statement("lapsed_instances").rows(connection)
        looked_at = 0
        for row in lapsed:
            after: int | None = 0
            while after is not None:
                count, after = await self._revive(row["id"], after)
                looked_at += count
        return looked_at

    async def _revive(self, instance: UUID, after: int) -> tuple[int, int | None]:
        """One page in one transaction: how many orders it had, and where the next begins, if there is one."""
        async with self._relay.transaction(self._session) as ride:
            connection = ride.connection
            if await statement("lock_lapsed").value(connection, id=instance) is None:
                return 0, None  # it lives again, or another supervisor has it in hand
            rows = await statement("touched_orders").rows(
                connection, instance=instance, after=after, most=self._page
            )
            nos = [row["no"] for row in rows]
            applied = await self._decider.apply(connection, {no: [Revived()] for no in nos}) if nos else None
            if len(nos) < self._page:
                await statement("mark_revived").rows(connection, id=instance)
        if applied is not None:
            report(applied)
            await self._relay.send(applied.messages, applied.outbox_id, "supervisor.after_publish")
        return len(nos), nos[-1] if len(nos) == self._page else None
