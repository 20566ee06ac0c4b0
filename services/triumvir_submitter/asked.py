"""What clients ask of orders: cancels and signals are taken down without a look at their order, questions answered."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256

import orjson

from triumvir.broker import OutMessage
from triumvir.contracts.messages import OrderCancel, OrderQuery, OrderSignal
from triumvir.runtime import outgoing
from triumvir.runtime.outgoing import StatusFact
from triumvir.store.operators import NO_FENCE
from triumvir.store.statements import Connection, statement
from triumvir_submitter.admission import Received


async def take_down(connection: Connection, commands: Sequence[Received]) -> list[Received]:
    """Writes cancels and signals down, each once by its order and message id, in the caller's transaction. Returns
    those that were written down before: their senders wait for an answer that was given already, or is still to come.
    """
    if not commands:
        return []
    written = await statement("insert_commands").rows(
        connection,
        clients=[received.client for received in commands],
        order_ids=[received.message.order_id for received in commands],
        message_ids=[_command_id(received) for received in commands],
        kinds=[_kind(received) for received in commands],
        data=[_data(received.message) for received in commands],
    )
    new = {(row["client"], row["order_id"], row["message_id"]) for row in written}
    return [received for received in commands if (*received.key, _command_id(received)) not in new]


def _command_id(received: Received) -> str:
    """Without a message id, one command is told from another by what it says: a redelivery is the same one."""
    said = sha256(received.delivery.body).hexdigest()
    return received.delivery.message_id or f"{_kind(received)}/{said}"


def _kind(received: Received) -> str:
    return "signal" if isinstance(received.message, OrderSignal) else "cancel"


def _data(message: object) -> str | None:
    """Of a signal its data is kept as the text that came, under the fence by which the release before refuses it."""
    if isinstance(message, OrderSignal):
        return orjson.dumps({"name": message.name, "data": message.data.text, "fence": NO_FENCE}).decode()
    reason = message.reason if isinstance(message, OrderCancel) else None
    return None if reason is None else orjson.dumps({"reason": reason}).decode()


async def asked_for(connection: Connection, received: Received) -> list[StatusFact]:
    """The statuses that a question is answered with: from the number it names on, else the present one."""
    message = received.message
    first = message.from_sequence if isinstance(message, OrderQuery) else None
    if first is not None:
        rows = await statement("statuses_from").rows(
            connection, client=received.client, order_id=message.order_id, first=first
        )
        if rows:
            return [StatusFact(**dict(row)) for row in rows]
    rows = await statement("last_statuses").rows(
        connection, clients=[received.client], order_ids=[message.order_id]
    )
    return [StatusFact(**{name: value for name, value in row.items() if name != "digest"}) for row in rows]


def unknown(received: Received) -> OutMessage:
    """The answer to a question about an order that is not there."""
    detail = f"there is no order {received.message.order_id!r} of client {received.client!r}"
    return outgoing.answer(
        received.reply_queue,
        received.client,
        received.message.order_id,
        "unknown_order",
        received.delivery.message_id,
        detail,
        datetime.now(UTC),
    )
