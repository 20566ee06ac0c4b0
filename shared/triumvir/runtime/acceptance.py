"""New orders, with the status that tells of them: one way for whoever creates the state record."""

from __future__ import annotations

from collections.abc import Sequence

from triumvir.runtime.outgoing import StatusFact
from triumvir.store.acceptance import Acceptance, Created, Desk, Key, create_orders
from triumvir.store.statements import Connection


async def create(
    connection: Connection,
    acceptances: Sequence[Acceptance],
    desk: Desk,
    payloads: Sequence[str] | None = None,
) -> dict[Key, StatusFact]:
    """Creates the state records that are missing, in the caller's transaction; ``received`` of each new one.

    ``acceptances`` by rising key, none twice. With ``payloads``, the documents as well: see
    :func:`triumvir.store.acceptance.create_orders`.
    """
    return received(acceptances, await create_orders(connection, acceptances, desk, payloads))


def received(acceptances: Sequence[Acceptance], created: Created) -> dict[Key, StatusFact]:
    """The status that tells of each new order."""
    return {
        each.key: StatusFact(
            created.orders[each.key][0], each.client, each.order_id, each.workflow, each.version,
            each.status_queue, each.trace, 1, created.orders[each.key][1], "received", None, "received", 1,
        )
        for each in acceptances
        if each.key in created.orders
    }  # fmt: skip
