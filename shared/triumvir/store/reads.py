"""What operators look at: orders, dead letters and workflows, as typed values. Nothing here writes or locks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from triumvir.errors import ConfigurationError
from triumvir.store.pauses import Pause, in_force
from triumvir.store.statements import Connection, Statement, statement

_ID_PREFIX: Final = re.compile(r"[0-9a-f-]{1,36}")


@dataclass(frozen=True, slots=True)
class OrderSummary:
    """One line of a list of orders. ``step`` is the ordinal, from 1, that runs or is being undone."""

    client: str
    order_id: str
    workflow: str
    version: int
    state: str
    attempt: int
    step: int | None
    failure_count: int
    held_by: str | None
    held_at: datetime | None
    paused_at: datetime | None
    paused_by: str | None
    locked: bool
    waiting: bool
    complete_by: datetime | None
    not_before: datetime | None
    received_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step that was dispatched at least once. ``result`` is the JSON text that its operation returned."""

    step_no: int
    attempt: int
    state: str
    calls: int
    effect: str
    result: str | None
    error: str | None
    undo_state: str | None
    undo_tries: int
    undo_error: str | None
    by_hand: bool
    undo_calls: int
    undo_limit: int | None


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One thing that happened to an order; with ``status`` and ``sequence`` if the client was told."""

    n: int
    at: datetime
    who: str
    from_state: str
    to_state: str
    why: str
    step_no: int | None
    status: str | None
    sequence: int | None


@dataclass(frozen=True, slots=True)
class CommandRow:
    """What was asked of an order and not yet taken."""

    kind: str
    data: str | None
    message_id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class OrderRow:
    """The state record of an order; ``now`` is the database's clock. ``definition``: of its workflow version, None if
    there is none. ``payload``: JSON text, None if it is in another database, or purged."""

    no: int
    client: str
    order_id: str
    workflow: str
    version: int
    state: str
    locked_by: UUID | None
    touched_by: UUID | None
    fence: int
    attempt: int
    step: int | None
    sent_at: datetime | None
    complete_by: datetime | None
    wake_at: datetime | None
    retries: int
    not_before: datetime | None
    held_by: str | None
    held_at: datetime | None
    paused_at: datetime | None
    paused_by: str | None
    cancel_requested: bool
    failure_count: int
    sequence: int
    history: int
    status_queue: str
    trace: str | None
    received_at: datetime
    ended_at: datetime | None
    budget: int | None
    purged_at: datetime | None
    definition: str | None
    payload: str | None
    now: datetime


@dataclass(frozen=True, slots=True)
class OrderDetail:
    """All there is to see of one order; ``pauses``: those of its workflow, and of agents."""

    order: OrderRow
    steps: list[StepRow]
    history: list[HistoryRow]
    commands: list[CommandRow]
    pauses: list[Pause]


@dataclass(frozen=True, slots=True)
class DeadLetterSummary:
    """One line of a list of dead letters. ``bytes`` is the size of the body."""

    id: UUID
    queue: str
    reason: str
    detail: str
    client: str | None
    message_id: str | None
    type: str | None
    correlation_id: str | None
    bytes: int
    at: datetime
    settlement: str | None
    settled_at: datetime | None
    replay_asked_at: datetime | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that could not be accepted, as it came. ``headers`` is JSON text.

    ``settlement``: ``replayed``, ``discarded`` or ``resolved``; None while it is open. ``replay_asked_at``: since
    when a replay waits for a submitter.
    """

    id: UUID
    queue: str
    reason: str
    detail: str
    client: str | None
    message_id: str | None
    type: str | None
    correlation_id: str | None
    reply_to: str | None
    content_type: str | None
    headers: str
    body: bytes
    at: datetime
    settlement: str | None
    settled_at: datetime | None
    replay_asked_at: datetime | None


@dataclass(frozen=True, slots=True)
class LetterEvent:
    """What was done to a dead letter, such as ``replay_asked``; all of them stand in the schema. ``n`` rises."""

    n: int
    at: datetime
    who: str
    what: str
    note: str | None


@dataclass(frozen=True, slots=True)
class AcceptedOrder:
    """What a submission became that was accepted; ``version`` is the one it was pinned to."""

    workflow: str
    version: int
    state: str
    received_at: datetime


@dataclass(frozen=True, slots=True)
class WorkflowRow:
    """One version of a workflow. ``definition`` is what ``Workflow.from_json`` reads."""

    name: str
    version: int
    definition: str
    at: datetime


_Row = TypeVar("_Row")


def _concerns(pause: Pause, order: OrderRow) -> bool:
    return pause.scope == "agent" or (pause.name == order.workflow and pause.version in (0, order.version))


class Reads:
    """The reads, on one plain connection: see :func:`triumvir.store.operators.connect`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def orders(
        self,
        *,
        state: str | None = None,
        client: str | None = None,
        workflow: str | None = None,
        held: bool = False,
        limit: int = 50,
    ) -> list[OrderSummary]:
        """The newest orders that match every filter given; with ``held``, those that are held or paused."""
        values = {"state": state, "client": client, "workflow": workflow, "held": held, "most": limit}
        return await self._all(OrderSummary, statement("list_orders"), values)

    async def order(self, client: str, order_id: str) -> OrderDetail | None:
        """One order with its steps and history, as of one moment; None if there is none."""
        async with self._connection.transaction(isolation="repeatable_read", readonly=True):
            key = {"client": client, "order_id": order_id}
            found = await self._all(OrderRow, statement("show_order"), key)
            if not found:
                return None
            no = {"no": found[0].no}
            return OrderDetail(
                order=found[0],
                steps=await self._all(StepRow, statement("show_steps"), no),
                history=await self._all(HistoryRow, statement("show_history"), no),
                commands=await self._all(CommandRow, statement("show_commands"), key),
                pauses=[each for each in await in_force(self._connection) if _concerns(each, found[0])],
            )

    async def is_taken(self, client: str, order_id: str, message_id: str) -> bool:
        """Whether a scheduler has taken what was asked of an order under this id."""
        values = {"client": client, "order_id": order_id, "message_id": message_id}
        return await statement("is_command_taken").value(self._connection, **values) is not False

    async def dead_letters(
        self,
        *,
        queue: str | None = None,
        client: str | None = None,
        reason: str | None = None,
        settled: bool = False,
        limit: int = 50,
    ) -> list[DeadLetterSummary]:
        """The newest dead letters that match every filter given; with ``settled``, those that are settled, too."""
        values = {"queue": queue, "client": client, "reason": reason, "settled": settled, "most": limit}
        return await self._all(DeadLetterSummary, statement("list_dead_letters"), values)

    async def dead_letter(self, id_prefix: str) -> DeadLetter | None:
        """The dead letter whose id begins like this; ConfigurationError if several do, None if none does."""
        if _ID_PREFIX.fullmatch(id_prefix.lower()) is None:
            return None
        found = await self._all(DeadLetter, statement("show_dead_letters"), {"prefix": id_prefix.lower()})
        if len(found) > 1:
            raise ConfigurationError(
                f"more than one dead letter begins with {id_prefix!r}; give more of its id"
            )
        return found[0] if found else None

    async def letter_log(self, letter_id: UUID) -> list[LetterEvent]:
        """What was done to a dead letter, oldest first."""
        return await self._all(LetterEvent, statement("show_dead_letter_log"), {"id": letter_id})

    async def accepted_order(self, client: str, order_id: str) -> AcceptedOrder | None:
        """What was accepted under this id; None if nothing was."""
        key = {"client": client, "order_id": order_id}
        found = await self._all(AcceptedOrder, statement("show_accepted_order"), key)
        return found[0] if found else None

    async def workflows(self) -> list[WorkflowRow]:
        """Every version that was applied, by name and version."""
        return await self._all(WorkflowRow, statement("list_workflows"), {})

    async def _all(self, row: type[_Row], what: Statement, values: dict[str, Any]) -> list[_Row]:
        return [row(**dict(record)) for record in await what.rows(self._connection, **values)]
