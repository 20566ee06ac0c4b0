"""Orders as rows, and moved where a test needs them."""

from __future__ import annotations

import hashlib
from datetime import datetime
from uuid import UUID, uuid4

from triumvir.store.statements import Connection, statement


async def make_orders(
    connection: Connection,
    ids: list[str],
    *,
    client: str = "shop-a",
    priorities: list[int] | None = None,
    not_before: datetime | None = None,
) -> list[int]:
    """Pending orders of one client, first come first; their numbers."""
    nos = []
    for place, order_id in enumerate(ids):
        no: int = await connection.fetchval(
            "insert into orders (client, order_id, workflow, version, digest, rank, not_before, status_queue,"
            " sequence, history) values ($1, $2, 'trio', 1, $3,"
            " (extract(epoch from clock_timestamp()) * 1000000)::bigint - $4 * 10000000, $5, $6, 1, 1) returning no",
            client,
            order_id,
            hashlib.sha256(order_id.encode()).digest(),
            priorities[place] if priorities else 0,
            not_before,
            f"status.{client}",
        )
        nos.append(no)
    return nos


async def lock(
    connection: Connection, no: int, *, state: str = "processing", seconds: float = 600, fence: int = 1
) -> UUID:
    """The order as an attempt of somebody's, on step 1, with this many seconds left (or overdue); its lock."""
    locked_by = uuid4()
    await connection.execute(
        "update orders set state = $2, locked_by = $3, fence = $4, attempt = attempt + 1, step = 1,"
        " sent_at = clock_timestamp(), complete_by = clock_timestamp() + make_interval(secs => $5) where no = $1",
        no,
        state,
        locked_by,
        fence,
        seconds,
    )
    return locked_by


async def hold(connection: Connection, nos: list[int], reason: str) -> None:
    await connection.execute("update orders set held_by = $2 where no = any($1)", nos, reason)


async def live_instance(
    connection: Connection, *, seconds: float = 600, operations: tuple[str, ...] = (), slots: int = 1
) -> UUID:
    """A process with a lease of so many seconds (negative: lapsed so long ago)."""
    instance = uuid4()
    await statement("renew_instance").rows(
        connection,
        id=instance,
        service="agent",
        host="here",
        pid=1,
        release="test",
        operations=list(operations),
        slots=slots,
        lease_seconds=seconds,
    )
    return instance
