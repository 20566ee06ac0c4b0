"""Which orders a change of a workflow meets: what lives and rests by which version, and what agents offer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from triumvir.lifecycle import State
from triumvir.store.reads import Reads, WorkflowRow
from triumvir.store.statements import Connection, statement


@dataclass(frozen=True, slots=True)
class OrdersAt:
    """So many ``orders`` of a version are in ``state`` at a step: its ordinal from 1, one past the last if all is done,
    None if it is not known.
    """

    workflow: str
    version: int
    state: State
    step_no: int | None
    orders: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The store as of one moment: applied versions, orders that live or rest, and ``agent/operation`` on offer."""

    applied: Sequence[WorkflowRow]
    orders: Sequence[OrdersAt]
    offered: Collection[str]


async def look_around(connection: Connection, workflows: Collection[str]) -> Surroundings:
    """What there is of these workflows, in one read-only transaction."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        applied = [row for row in await Reads(connection).workflows() if row.name in workflows]
        names = list(workflows)
        live = await statement("count_live_orders").rows(connection, workflows=names)
        resting = await statement("count_resting_orders").rows(connection, workflows=names)
        offered = await statement("offered_operations").rows(connection)
    orders = [OrdersAt(**dict(row)) for row in (*live, *resting)]
    return Surroundings(applied, orders, frozenset(row["operation"] for row in offered))
