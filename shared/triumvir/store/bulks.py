"""Moves of many orders: selected once and for all, each bound to the fence it was seen with, asked for once.

The selection, how far it is, and what came of each order are rows. So whoever dies while running it has lost nothing,
two who run it at the same time share the work, and running it again does nothing twice.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, Literal

from triumvir.errors import ConfigurationError
from triumvir.lifecycle import LIVE, RESTING, Action, State
from triumvir.store.operators import command_data, storable
from triumvir.store.statements import Connection, Row, statement

BulkAction = Literal["retry", "skip", "compensate", "resume", "close", "cancel", "pause", "unpause"]
FITS: Final[Mapping[BulkAction, frozenset[State]]] = {
    "retry": frozenset({"error"}),
    "skip": RESTING,
    "compensate": frozenset({"pending", "processing", "error"}),
    "resume": frozenset({"compensation_failed"}),
    "close": RESTING,
    "cancel": frozenset({"pending", "processing", "error"}),
    "pause": LIVE,
    "unpause": LIVE | RESTING,
}
"""The states that each is for."""
_ASKED_AS: Final[Mapping[str, Action]] = {"cancel": "compensate"}
"""A cancel knows no fence; to compensate what runs means the same, and does."""
_MAY_FALL_BACK: Final = ("retry", "skip", "compensate", "resume", "cancel")
_SELECT_SECONDS: Final = 300
PAGE: Final = 5_000
MOST_WAITING: Final = 1_000
"""So many at most are asked for and not yet taken: no more than schedulers keep up with."""
RECENT: Final = 1_000
"""So many of the last that were moved are looked at again."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which orders. None matches all. ``error``: part of the error of a step or undo, in any case; ``older_than``:
    seconds since they were received; ``held_by``: how the reason of their hold begins; ``limit``: so many at most, the
    oldest.
    """

    workflow: str | None = None
    version: int | None = None
    client: str | None = None
    states: tuple[str, ...] | None = None
    step: str | None = None
    error: str | None = None
    older_than: float | None = None
    held_by: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Bulk:
    """One selection and what is to be done with it. ``filter`` is JSON text, ``orders`` how many were selected."""

    id: str
    action: BulkAction
    who: str
    reason: str
    result: str | None
    filter: str
    orders: int
    at: datetime

    @property
    def mark(self) -> str:
        """Stands in the history of every order that it moves, after the name of who ran it."""
        return f"(bulk {self.id})"


@dataclass(frozen=True, slots=True)
class Tally:
    """How far a bulk is. ``waiting``: asked for, and taken by no scheduler yet; the last two count this run only."""

    unasked: int
    waiting: int
    done: int
    refused: int
    fell_back: int
    settled_since: int
    failed_since: int

    @property
    def settled(self) -> int:
        return self.done + self.refused + self.fell_back

    @property
    def is_over(self) -> bool:
        return self.unasked == self.waiting == 0


@dataclass(frozen=True, slots=True)
class BulkEvent:
    """Who did what with a bulk: ``selected``, ``begun``, ``stopped`` or ``done``."""

    n: int
    at: datetime
    who: str
    what: str
    note: str | None


async def select(
    connection: Connection,
    action: BulkAction,
    chosen: Filter,
    *,
    who: str,
    reason: str,
    result: str | None = None,
    page: int = PAGE,
) -> Bulk:
    """Keep what matches now, all of it or nothing. Raises ConfigurationError for a state that the action is not for."""
    values = {**_values(action, chosen), "bulk": secrets.token_hex(4)}
    async with connection.transaction(isolation="repeatable_read"):
        await connection.execute(f"set local statement_timeout = {_SELECT_SECONDS * 1000}")
        await statement("insert_bulk").rows(
            connection,
            id=values["bulk"],
            action=action,
            who=storable(who),
            reason=storable(reason),
            result=result,
            filter=json.dumps({name: value for name, value in asdict(chosen).items() if value is not None}),
        )
        orders = await _select_pages(connection, values, chosen.limit, page)
        row = await statement("close_selection").row(connection, id=values["bulk"], orders=orders)
        await _log(connection, values["bulk"], who, "selected", f"{orders} orders: {reason}")
    return Bulk(**dict(row or {}))


async def _select_pages(
    connection: Connection, values: Mapping[str, Any], limit: int | None, page: int
) -> int:
    after, orders = 0, 0
    while limit is None or orders < limit:
        most = page if limit is None else min(page, limit - orders)
        row = await statement("select_for_bulk").row(connection, after=after, most=most, **values)
        if row is None or not row["orders"]:
            break
        after, orders = row["last"], orders + row["orders"]
        if row["orders"] < most:
            break
    return orders


def _values(action: BulkAction, chosen: Filter) -> dict[str, Any]:
    fitting = FITS[action]
    wrong = [state for state in chosen.states or () if state not in fitting]
    if wrong:
        raise ConfigurationError(
            f"{action} is for orders in {' or '.join(sorted(fitting))}, not in {wrong[0]}"
        )
    return {
        "states": list(chosen.states or sorted(fitting)),
        "workflow": chosen.workflow,
        "version": chosen.version,
        "client": chosen.client,
        "step": chosen.step,
        "error": chosen.error,
        "older_than": chosen.older_than,
        "held_by": chosen.held_by,
        "paused": {"pause": False, "unpause": True}.get(action),
    }


async def find(connection: Connection, id_prefix: str) -> Bulk:
    """The bulk whose id begins like this. Raises ConfigurationError if none does, or several do."""
    escaped = id_prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    rows = await statement("find_bulks").rows(connection, prefix=escaped)
    if not id_prefix or len(rows) != 1:
        several = "more than one bulk's id begins" if len(rows) > 1 else "no bulk's id begins"
        raise ConfigurationError(f"{several} with {id_prefix!r}; see: triumvir orders bulk list")
    return Bulk(**dict(rows[0]))


async def newest(connection: Connection, most: int) -> list[Bulk]:
    """The newest ones."""
    return [Bulk(**dict(row)) for row in await statement("list_bulks").rows(connection, most=most)]


async def tally(connection: Connection, bulk: Bulk, since: datetime | None = None) -> Tally:
    """How far it is; ``since`` when this run began."""
    row = await statement("bulk_tally").row(connection, bulk=bulk.id, since=since or bulk.at)
    return Tally(**dict(row or {}))


async def look(connection: Connection, what: str, bulk: Bulk, **values: Any) -> list[dict[str, Any]]:
    """One of the looks at a bulk of sql/bulks.sql: ``groups``, ``sample``, ``failures``, ``states``."""
    return [dict(row) for row in await statement(f"bulk_{what}").rows(connection, bulk=bulk.id, **values)]


async def log(connection: Connection, bulk: Bulk) -> list[BulkEvent]:
    """Who did what with it, oldest first."""
    rows = await statement("read_bulk_log").rows(connection, bulk=bulk.id)
    return [BulkEvent(**dict(row)) for row in rows]


async def note(connection: Connection, bulk: Bulk, who: str, what: str, text: str | None) -> None:
    """Write down what somebody did with it."""
    await _log(connection, bulk.id, who, what, text)


async def _log(connection: Connection, bulk: str, who: str, what: str, text: str | None) -> None:
    await statement("insert_bulk_log").rows(
        connection, bulk=bulk, who=storable(who), what=what, note=storable(text)
    )


async def ask_for_some(
    connection: Connection, bulk: Bulk, who: str, *, most: int, rate: float
) -> tuple[int, float]:
    """Ask for the next ``most``, if their time has come: how many were, and in how many seconds the next may be.

    The commands and the mark that they were asked for are one transaction. ``rate``, in orders a second, is kept over
    all who run it.
    """
    async with connection.transaction():
        row = await statement("lock_bulk").row(connection, id=bulk.id)
        if row is None or row["wait"] > 0:
            return 0, 0.0 if row is None else row["wait"]
        rows = await statement("bulk_next").rows(
            connection, bulk=bulk.id, most=most, most_waiting=MOST_WAITING
        )
        if not rows:
            return 0, 0.0
        await _ask(connection, bulk, who, rows)
        seconds = len(rows) / rate
        await statement("bulk_asked").rows(
            connection, bulk=bulk.id, nos=[row["no"] for row in rows], seconds=seconds
        )
        return len(rows), seconds


async def _ask(connection: Connection, bulk: Bulk, who: str, rows: Sequence[Row]) -> None:
    kind = _ASKED_AS.get(bulk.action, bulk.action)
    by = f"{who} {bulk.mark}"
    said = [{"reason": bulk.reason, "fence": row["fence"], "result": bulk.result} for row in rows]
    await statement("insert_commands").rows(
        connection,
        clients=[row["client"] for row in rows],
        order_ids=[row["order_id"] for row in rows],
        message_ids=[_message_id(bulk)] * len(rows),
        kinds=[kind] * len(rows),
        data=[json.dumps(command_data(kind, by, members)) for members in said],
    )


async def settle_some(connection: Connection, bulk: Bulk) -> int:
    """Note what came of those that schedulers took, and which of the last ones rest again; of how many."""
    kind = _ASKED_AS.get(bulk.action, bulk.action)
    settled = await statement("settle_bulk").rows(
        connection,
        bulk=bulk.id,
        message_id=_message_id(bulk),
        asked=f"{kind} by ",
        mark=bulk.mark,
        most=MOST_WAITING,
    )
    fallen = []
    if bulk.action in _MAY_FALL_BACK:
        fallen = await statement("bulk_fell_back").rows(connection, bulk=bulk.id, most=RECENT)
    return len(settled) + len(fallen)


def _message_id(bulk: Bulk) -> str:
    """One within an order: asked twice is asked once."""
    return f"bulk/{bulk.id}"
