"""The log of those who looked at the data of confidential orders."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from triumvir.store.operators import storable
from triumvir.store.statements import Connection, statement


@dataclass(frozen=True, slots=True)
class Reveal:
    """One look. ``who`` as the machine says, ``by_user`` as Postgres does; ``n`` rises."""

    n: int
    at: datetime
    who: str
    by_user: str
    command: str
    client: str
    order_id: str
    workflow: str
    reason: str | None


async def log_reveal(
    connection: Connection,
    key: tuple[str, str],
    workflow: str,
    *,
    who: str,
    command: str,
    reason: str | None,
) -> None:
    """Writes down that the data of an order is about to be shown. When this returns it is committed: call it outside of
    a transaction. Raises what Postgres says; then nothing may be shown.
    """
    await statement("log_reveal").rows(
        connection,
        who=storable(who),
        command=command,
        client=key[0],
        order_id=key[1],
        workflow=workflow,
        reason=storable(reason),
    )


async def reveals(
    connection: Connection, client: str | None, order_id: str | None, limit: int
) -> list[Reveal]:
    """The newest looks at orders of this client, or at this order; None: all."""
    rows = await statement("list_reveals").rows(connection, client=client, order_id=order_id, most=limit)
    return [Reveal(**dict(row)) for row in rows]
