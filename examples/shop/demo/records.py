"""What Triumvir's database holds at the end: the state of every order, and what became of its steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from shop.reconcile import Recorded
from shop.workflow import order_fulfilment

CHECK: Final = "orders"
"""The agent of the first step; the others are named like the services they call."""

ORDERS_AND_STEPS: Final = """
select o.client || '/' || o.order_id as order_key, o.state,
       s.step_no, s.state as step_state, s.effect, s.undo_state
from triumvir.orders o left join triumvir.steps s using (no)
order by o.no, s.step_no
"""


@dataclass
class Records:
    """By order (``client/order_id``): its state, and each step that was begun by the service it calls."""

    ends: dict[str, str] = field(default_factory=dict)
    steps: dict[str, dict[str, Recorded]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    """Refused by check-order."""


async def read(connection: Any) -> Records:
    """All orders with their steps, in one statement and so of one moment."""
    records = Records()
    for row in await connection.fetch(ORDERS_AND_STEPS):
        order = row["order_key"]
        records.ends[order] = row["state"]
        steps = records.steps.setdefault(order, {})
        if row["step_no"] is None:
            continue
        agent = order_fulfilment.step(row["step_no"]).agent
        if agent != CHECK:
            steps[agent] = _recorded(row)
        elif row["step_state"] == "failed":
            records.refused.add(order)
    return records


def _recorded(row: Any) -> Recorded:
    if row["effect"] == "none":
        return "none"
    if row["undo_state"] == "undone":
        return "undone"
    return "done" if row["step_state"] == "completed" and row["undo_state"] is None else "in doubt"
