"""Dead letters: what could not be accepted is kept with its reason, in the commit that settles its delivery."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import orjson

from triumvir.broker import Delivery, OutMessage
from triumvir.contracts.codec import order_id_of
from triumvir.errors import ContractError
from triumvir.runtime import outgoing
from triumvir.runtime.outgoing import DeadLetter
from triumvir.store.statements import Connection, Row, statement
from triumvir.telemetry import events, metrics
from triumvir.telemetry.logs import get_logger

_LONGEST: Final = 2000
log = get_logger(__name__)


def letter_of(delivery: Delivery, reason: str, detail: str, *, client: str | None = None) -> DeadLetter:
    """The dead letter of a delivery. The same message of the same sender, refused for the same reason, has the same
    id, however often it comes.
    """
    whose = f"{delivery.user_id}\x00{delivery.type}\x00{reason}".encode("utf-8", "replace")
    return DeadLetter(
        id=UUID(bytes=hashlib.sha256(delivery_hash(delivery) + whose).digest()[:16]),
        queue=delivery.queue,
        reason=reason,
        detail=_storable(detail)[:_LONGEST],
        client=client,
        message_id=_text(delivery.message_id),
        type=_text(delivery.type),
        correlation_id=_text(delivery.correlation_id),
        reply_to=_text(delivery.reply_to),
        content_type=_text(delivery.content_type),
        headers=_headers(delivery),
        body=delivery.body,
        at=datetime.now(UTC),
    )


def refused(delivery: Delivery, error: ContractError, *, client: str | None = None) -> DeadLetter:
    """The dead letter of a message that the contract refuses."""
    return letter_of(delivery, error.reason, f"{error.field}: {error.problem}; {error.fix}", client=client)


def delivery_hash(delivery: Delivery) -> bytes:
    """What tells one message from another: 32 bytes over queue, message id and body."""
    digest = hashlib.sha256(delivery.queue.encode())
    digest.update(b"\x00" + str(delivery.message_id).encode("utf-8", "replace") + b"\x00")
    digest.update(delivery.body)
    return digest.digest()


async def insert(connection: Connection, letters: Sequence[DeadLetter]) -> None:
    """Stores them, in the caller's transaction; each once, in an order that all writers keep."""
    if not letters:
        return
    letters = sorted({letter.id: letter for letter in letters}.values(), key=lambda letter: letter.id)
    await statement("insert_dead_letters").rows(
        connection,
        ids=[letter.id for letter in letters],
        queues=[letter.queue for letter in letters],
        reasons=[letter.reason for letter in letters],
        details=[letter.detail for letter in letters],
        clients=[letter.client for letter in letters],
        message_ids=[letter.message_id for letter in letters],
        types=[letter.type for letter in letters],
        correlation_ids=[letter.correlation_id for letter in letters],
        reply_to=[letter.reply_to for letter in letters],
        content_types=[letter.content_type for letter in letters],
        headers=[letter.headers for letter in letters],
        bodies=[letter.body for letter in letters],
    )


def messages(letter: DeadLetter) -> list[OutMessage]:
    """What is sent for one: the copy in the ``.dead`` queue, the alert, and the answer to a sender."""
    answer = outgoing.rejected(letter, order_id_of(letter.body) or "")
    return [outgoing.letter_copy(letter), outgoing.letter_alert(letter), *([answer] if answer else [])]


def report(letters: Sequence[DeadLetter]) -> None:
    """Counts and logs what was set aside."""
    for letter in letters:
        metrics.DEAD_LETTERS.add(1, letter.queue, letter.reason)
        metrics.ALERTS.add(1, "dead-letter")
        log.warning(
            events.MESSAGE_DEAD_LETTERED,
            dead_letter=str(letter.id),
            queue=letter.queue,
            reason=letter.reason,
            detail=letter.detail,
            client=letter.client,
            message_id=letter.message_id,
        )


def of_row(row: Row) -> DeadLetter:
    """From a row of ``dead_letters``."""
    return DeadLetter(**dict(row))


def delivery_of(letter: DeadLetter) -> Delivery:
    """As it came, for another try: its sender is the client that was recorded with it."""
    return Delivery(
        queue=letter.queue,
        body=letter.body,
        message_id=letter.message_id,
        type=letter.type,
        correlation_id=letter.correlation_id,
        user_id=letter.client,
        reply_to=letter.reply_to,
        content_type=letter.content_type,
        headers=orjson.loads(letter.headers),
        redelivered=False,
        timestamp=None,
        tag=0,
        channel=None,
    )


def _storable(text: str) -> str:
    return text.replace("\x00", "\\0").encode("utf-8", "backslashreplace").decode()


def _text(value: str | None) -> str | None:
    return None if value is None else _storable(str(value))


def _headers(delivery: Delivery) -> str:
    return orjson.dumps(
        {_storable(str(name)): _storable(str(value)) for name, value in delivery.headers.items()}
    ).decode()
