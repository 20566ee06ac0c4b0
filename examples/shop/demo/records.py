"""What Triumvir's database holds: the state of every order, what became of its steps, what is in hand."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from shop.reconcile import Recorded
from shop.workflow import order_fulfilment

CHECK: Final = "orders"
"""The agent of the first step; the others are named like the services they call."""

AMOUNTS: Final = {"inventory": "units", "payments": "amount", "shipping": "price"}
"""The member of a step's result that the ledger of its service has as the amount."""

ORDERS_AND_STEPS: Final = """
select o.client || '/' || o.order_id as order_key, o.state,
       s.step_no, s.state as step_state, s.effect, s.undo_state, s.result,
       (select why from triumvir.transitions t
        where t.no = o.no and t.to_state = 'compensating' order by n limit 1) as why_undone
from triumvir.orders o left join triumvir.steps s using (no)
order by o.no, s.step_no
"""

UNDER_WAY: Final = """
select count(*) from triumvir.orders where state in ('pending', 'processing', 'compensating')
"""

IN_HAND: Final = """
select count(*) from triumvir.inbox i join triumvir.instances p on p.id = i.owner
where p.pid = $1 and i.state = 'running'
"""

GIVEN_UP: Final = re.compile(r"\S+ failed \d+ times: ")
"""How the history says that a step was not refused at once."""

POLL_SECONDS: Final = 0.2


@dataclass
class Records:
    """By order (``client/order_id``): its state, and each step that was begun by the service it calls."""

    ends: dict[str, str] = field(default_factory=dict)
    steps: dict[str, dict[str, Recorded]] = field(default_factory=dict)
    amounts: dict[str, dict[str, str]] = field(default_factory=dict)
    """What the results of steps that are done, and not undone, say of pieces and pounds."""
    failed_at: dict[str, str] = field(default_factory=dict)
    """The agent whose step failed for good, if one did."""
    given_up: set[str] = field(default_factory=set)
    """Not refused, but tried in vain too often."""

    @property
    def refused(self) -> set[str]:
        """Refused by check-order."""
        return {order for order, agent in self.failed_at.items() if agent == CHECK} - self.given_up


async def until_at_rest(connection: Any) -> None:
    """Returns once no order is under way. An end may be left again: by a success that comes late, to undo it."""
    while await connection.fetchval(UNDER_WAY):  # noqa: ASYNC110 - it is another process that changes it
        await asyncio.sleep(POLL_SECONDS)


async def in_hand(connection: Any, pid: int) -> int:
    """How many operations the agent process ``pid`` has begun and not finished."""
    count: int = await connection.fetchval(IN_HAND, pid)
    return count


async def read(connection: Any) -> Records:
    """All orders with their steps, in one statement and so of one moment."""
    records = Records()
    for row in await connection.fetch(ORDERS_AND_STEPS):
        order = row["order_key"]
        records.ends[order] = row["state"]
        records.steps.setdefault(order, {})
        records.amounts.setdefault(order, {})
        if row["step_no"] is not None:
            _take(records, order, row)
    return records


def _take(records: Records, order: str, row: Any) -> None:
    agent = order_fulfilment.step(row["step_no"]).agent
    if row["step_state"] == "failed":
        records.failed_at[order] = agent
        if GIVEN_UP.match(row["why_undone"] or ""):
            records.given_up.add(order)
    if agent == CHECK:
        return
    recorded = _recorded(row)
    records.steps[order][agent] = recorded
    if recorded == "done":
        records.amounts[order][agent] = str(json.loads(row["result"])[AMOUNTS[agent]])


def _recorded(row: Any) -> Recorded:
    if row["effect"] == "none":
        return "none"
    if row["undo_state"] == "undone":
        return "undone"
    return "done" if row["step_state"] == "completed" and row["undo_state"] is None else "in doubt"
