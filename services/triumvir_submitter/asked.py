"""What clients ask of orders: cancels are taken down, questions answered. No order is looked at for a cancel."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256

import orjson

from triumvir.broker import OutMessage
from triumvir.contracts.messages import OrderCancel, OrderQuery
from triumvir.runtime import outgoing
from triumvir.runtime.outgoing import StatusFact
from triumvir.store.statements import Connection, statement
from triumvir_submitter.admission import Received


async def take_down(connection: Connection, cancels: Sequence[Received]) -> list[Received]:
    """Writes cancels down, each once by its order and message id, in the caller's transaction. Returns those that
    were written down before: their senders wait for an answer that was given already, or is still to come.
    """
    if not cancels:
        return []
    written = await statement("insert_commands").rows(
        connection,
        clients=[received.client for received in cancels],
        order_ids=[received.message.order_id for received in cancels],
        message_ids=[_command_id(received) for received in cancels],
        kinds=["cancel"] * len(cancels),
        data=[_reason(received.message) for received in cancels],
    )
    new = {(row["client"], row["order_id"], row["message_id"]) for row in written}
    return [received for received in cancels if (*received.key, _command_id(received)) not in new]


def _command_id(received: Received) -> str:
    """Without a message id, one cancel is told from another by what it says: a redelivery is the same one."""
    return received.delivery.message_id or f"cancel/{sha256(received.delivery.body).hexdigest()}"


def _reason(message: object) -> str | None:
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
