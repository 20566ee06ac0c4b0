"""The store as an auditor sees it: one consistent look at every order with all that belongs to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from triumvir.contracts.names import Direction, order_key
from triumvir.lifecycle import LIVE, RESTING, State
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

    @property
    def purged(self) -> bool:
        """Whether its steps and history are gone, and say nothing any more."""
        return bool(self.record["purged"])

    @property
    def moves(self) -> int:
        """How often it was moved out of a rest: each time failures are counted anew."""
        return sum(row["from_state"] in RESTING and row["to_state"] in LIVE for row in self.history)

    @property
    def way(self) -> list[int]:
        """The steps that are on the way of the order, by what its records say of time-outs."""
        found, led_to = [], 0
        for step_no, step in enumerate(self.workflow.steps, start=1):
            if step_no < led_to or (not step.main_line and step_no != led_to):
                continue
            found.append(step_no)
            row = self.steps.get(step_no)
            led_to = (row["led_to"] if row is not None else None) or 0
        return found

    def step_name(self, step_no: int) -> str:
        return self.workflow.step(step_no).name


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All of it. ``orders``, and the digests of ``documents``, by ``client/order_id``; ``emptied``: the documents
    without a payload.
    """

    orders: dict[str, OrderFacts]
    leftovers: Row
    idle_sessions: Sequence[Row]
    dead_letters: Sequence[Row]
    documents: Mapping[str, bytes]
    emptied: frozenset[str] = frozenset()

    @property
    def kept(self) -> dict[str, OrderFacts]:
        """The orders that were not purged, and can be compared with what happened."""
        return {key: facts for key, facts in self.orders.items() if not facts.purged}


async def look(settings: Settings) -> Snapshot:
    """Reads the store in one read-only transaction, and the orders database in another, if there is one. Raises
    StoreError if one cannot be reached.
    """
    documents, emptied, idle_there = await _documents(settings)
    connection = await connect(settings, "audit")
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            rows = {
                name: await statement(f"audit_{name}").rows(connection)
                for name in ("orders", "steps", "transitions", "inbox", "dead_letters")
            }
            definitions = await statement("all_definitions").rows(connection)
            (leftovers,) = await statement("audit_leftovers").rows(connection)
            idle = await statement("audit_idle_sessions").rows(connection)
    finally:
        await connection.close()
    return Snapshot(
        _orders(rows, definitions),
        leftovers,
        [*idle, *idle_there],
        rows["dead_letters"],
        documents,
        emptied,
    )


async def _documents(settings: Settings) -> tuple[dict[str, bytes], frozenset[str], list[Row]]:
    """Digests by order, which of them are empty, and what idles in a database that only they are in."""
    connection = await connect(settings, "audit", settings.orders_dsn)
    try:
        rows = await statement("audit_documents").rows(connection)
        idle = await statement("audit_idle_sessions").rows(connection) if settings.orders_dsn else []
    finally:
        await connection.close()
    by_key = {order_key(row["client"], row["order_id"]): row for row in rows}
    emptied = frozenset(key for key, row in by_key.items() if row["empty"])
    return {key: row["digest"] for key, row in by_key.items()}, emptied, idle


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
