"""Creating state records: once per client and order id, whoever does it however often."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from triumvir.store.statements import Connection, statement

Key = tuple[str, str]
"""Client and order id."""

RANK_PER_PRIORITY: Final = 10_000_000
"""Microseconds: one point of priority goes before orders that came ten seconds earlier."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a state record is made of."""

    client: str
    order_id: str
    digest: bytes
    workflow: str
    version: int
    priority: int
    not_before: datetime | None
    progress: bool
    status_queue: str
    trace: str | None

    @property
    def key(self) -> Key:
        return self.client, self.order_id


@dataclass(frozen=True, slots=True)
class Desk:
    """Who accepts, and how many orders may be open."""

    instance: UUID
    who: str
    most_open: int


def keys(wanted: Iterable[Key]) -> dict[str, list[str]]:
    """The parameters of a statement that goes by key."""
    listed = list(wanted)
    return {"clients": [key[0] for key in listed], "order_ids": [key[1] for key in listed]}


def columns(acceptances: Sequence[Acceptance]) -> dict[str, list[object]]:
    """The parameters of a statement that writes acceptances, one list for each column."""
    names = {
        "clients": "client", "order_ids": "order_id", "digests": "digest", "workflows": "workflow",
        "versions": "version", "priorities": "priority", "not_before": "not_before", "progress": "progress",
        "status_queues": "status_queue", "traces": "trace",
    }  # fmt: skip
    return {parameter: [getattr(each, name) for each in acceptances] for parameter, name in names.items()}


async def create_orders(
    connection: Connection, acceptances: Sequence[Acceptance], desk: Desk
) -> dict[Key, tuple[int, datetime]]:
    """Creates the state records that are missing, in the caller's transaction, which must go by rising key. Number
    and time of the new ones; an existing one is left alone.
    """
    if not acceptances:
        return {}
    rows = await statement("insert_orders").rows(
        connection,
        **columns(acceptances),
        rank_per_priority=RANK_PER_PRIORITY,
        instance=desk.instance,
        who=desk.who,
    )
    return {(row["client"], row["order_id"]): (row["no"], row["received_at"]) for row in rows}
