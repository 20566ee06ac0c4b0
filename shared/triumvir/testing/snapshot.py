"""The store as an auditor sees it: one consistent look at every order with all that belongs to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triumvir.contracts.names import Direction, order_key
from triumvir.lifecycle import State
from triumvir.settings import Settings
from triumvir.store.session import connect
from triumvir.store.statements import Row, statement
from triumvir.workflow import Workflow


@dataclass(frozen=True, slots=True)
class OrderFacts:
    """One order: its state record, its steps by ordinal, its history, and its inbox rows."""

    record: Row
    workflow: Workflow
    steps: dict[int, Row]
    history: Sequence[Row]
    inbox: dict[tuple[int, Direction], Row]

    @property
    def key(self) -> str:
        return order_key(self.record["client"], self.record["order_id"])

    @property
    def state(self) -> State:
        state: State = self.record["state"]
        return state

    def step_name(self, step_no: int) -> str:
        return self.workflow.step(step_no).name


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All of it. ``orders`` by ``client/order_id``."""

    orders: dict[str, OrderFacts]
    leftovers: Row
    idle_sessions: Sequence[Row]
    dead_letters: Sequence[Row]
    lone_documents: Sequence[str]


async def look(settings: Settings) -> Snapshot:
    """Reads the store in one read-only transaction. Raises StoreError if it cannot be reached."""
    connection = await connect(settings, "audit")
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            rows = {
                name: await statement(f"audit_{name}").rows(connection)
                for name in ("orders", "steps", "transitions", "inbox", "documents", "dead_letters")
            }
            definitions = await statement("all_definitions").rows(connection)
            (leftovers,) = await statement("audit_leftovers").rows(connection)
            idle = await statement("audit_idle_sessions").rows(connection)
    finally:
        await connection.close()
    return Snapshot(
        _orders(rows, definitions),
        leftovers,
        idle,
        rows["dead_letters"],
        [order_key(row["client"], row["order_id"]) for row in rows["documents"]],
    )


def _orders(rows: dict[str, list[Row]], definitions: Sequence[Row]) -> dict[str, OrderFacts]:
    workflows = {(row["name"], row["version"]): Workflow.from_json(row["definition"]) for row in definitions}
    by_no = {
        row["no"]: OrderFacts(row, workflows[row["workflow"], row["version"]], {}, [], {})
        for row in rows["orders"]
    }
    histories: dict[int, list[Row]] = {}
    for row in rows["transitions"]:
        histories.setdefault(row["no"], []).append(row)
    for row in rows["steps"]:
        by_no[row["no"]].steps[row["step_no"]] = row
    for row in rows["inbox"]:
        by_no[row["no"]].inbox[row["step_no"], row["direction"]] = row
    return {
        facts.key: OrderFacts(facts.record, facts.workflow, facts.steps, histories.get(no, []), facts.inbox)
        for no, facts in by_no.items()
    }
