"""Creating state records: once per client and order id, whoever does it however often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class Created:
    """What was created: number and time by key, and the outbox row that tells of it, if it was asked for."""

    orders: Mapping[Key, tuple[int, datetime]]
    outbox_id: int | None = None


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Creating orders is a transaction of its own: nothing is done unless all of them are new, there is room, and
    ``newest`` names the newest version of each of these workflows. The outbox row has a lease of so many seconds; those
    of ``confirmed`` go.
    """

    newest: Mapping[str, int]
    lease_seconds: float
    confirmed: Sequence[int] = ()


async def create_orders(
    connection: Connection,
    acceptances: Sequence[Acceptance],
    desk: Desk,
    payloads: Sequence[str] | None = None,
    at_once: AtOnce | None = None,
) -> Created:
    """Creates the state records that are missing, in the caller's transaction; an existing one is left alone.

    ``acceptances`` by rising key. With ``payloads`` the documents are created, too, and the orders of those that were
    missing. With ``at_once``, a serialization failure (class 40) if nothing is done.
    """
    if not acceptances:
        return Created({})
    rows = await statement("insert_orders").rows(
        connection,
        **columns(acceptances),
        payloads=[] if payloads is None else list(payloads),
        with_documents=payloads is not None,
        rank_per_priority=RANK_PER_PRIORITY,
        instance=desk.instance,
        who=desk.who,
        all_or_none=at_once is not None,
        newest_names=[] if at_once is None else list(at_once.newest),
        newest_versions=[] if at_once is None else list(at_once.newest.values()),
        most_open=desk.most_open,
        lease_seconds=None if at_once is None else at_once.lease_seconds,
        confirmed=[] if at_once is None else list(at_once.confirmed),
    )
    orders = {
        (row["client"], row["order_id"]): (row["no"], row["received_at"])
        for row in rows
        if row["no"] is not None
    }
    return Created(orders, rows[0]["outbox_id"])
