"""New orders, with the status that tells of them: one way for whoever creates the state record."""

from __future__ import annotations

from collections.abc import Sequence

from triumvir.runtime.outgoing import StatusFact
from triumvir.store.acceptance import Acceptance, Desk, Key, create_orders
from triumvir.store.statements import Connection


async def create(
    connection: Connection, acceptances: Sequence[Acceptance], desk: Desk
) -> dict[Key, StatusFact]:
    """Creates the state records that are missing, in the caller's transaction; ``received`` of each new one.

    ``acceptances`` by rising key, none twice.
    """
    created = await create_orders(connection, acceptances, desk)
    return {
        each.key: StatusFact(
            created[each.key][0], each.client, each.order_id, each.workflow, each.version, each.status_queue,
            each.trace, 1, created[each.key][1], "received", None, "received", 1,
        )
        for each in acceptances
        if each.key in created
    }  # fmt: skip
