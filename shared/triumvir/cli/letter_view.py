"""One dead letter, drawn for a person: what came, what was done to it, and how it differs from what was accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson
from rich.markup import escape as escaped

from triumvir.cli.output import NONE, moment, note, say, show_rows
from triumvir.contracts.codec import decode_strictly
from triumvir.contracts.differences import Difference, differences
from triumvir.contracts.identity import as_submitted, identity_of
from triumvir.contracts.messages import OrderSubmit
from triumvir.contracts.names import order_key
from triumvir.errors import ContractError, StoreError
from triumvir.settings import Settings
from triumvir.store.documents import find_document
from triumvir.store.reads import DeadLetter, DeadLetterSummary, LetterEvent, Reads
from triumvir.store.statements import Connection

_LONGEST_VALUE: Final = 80
_MOST_DIFFERENCES: Final = 50
_NOT_THERE: Final = "(not there)"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A dead submission beside the order that was accepted under its id. Without ``differences`` they are equal."""

    order: str
    state: str
    received_at: datetime
    differences: list[Difference]


@dataclass(frozen=True, slots=True)
class Shown:
    """All there is to see of one dead letter."""

    letter: DeadLetter
    log: list[LetterEvent]
    comparison: Comparison | None


async def look(connection: Connection, letter: DeadLetter, settings: Settings) -> Shown:
    """The letter with its log, and compared if something was accepted under the id it names and can be read."""
    try:
        comparison = await _compare(connection, letter, settings)
    except StoreError as error:
        note(f"not compared with what was accepted: {error}")
        comparison = None
    return Shown(letter, await Reads(connection).letter_log(letter.id), comparison)


async def _compare(connection: Connection, letter: DeadLetter, settings: Settings) -> Comparison | None:
    message = _submission(letter, settings.max_json_depth)
    if message is None or letter.client is None:
        return None
    found = await Reads(connection).accepted_order(letter.client, message.order_id)
    if found is None:
        return None
    document = await find_document(settings, connection, (letter.client, message.order_id))
    if document is None:
        return None
    accepted = as_submitted(found.workflow, found.version, orjson.loads(document.payload), document.digest)
    return Comparison(
        order_key(letter.client, message.order_id),
        found.state,
        found.received_at,
        list(differences(accepted, identity_of(message))),
    )


def _submission(letter: DeadLetter, max_depth: int) -> OrderSubmit | None:
    if letter.type != OrderSubmit.TYPE:
        return None
    try:
        return decode_strictly(OrderSubmit, letter.body, max_bytes=len(letter.body), max_depth=max_depth)
    except ContractError:
        return None


def state(letter: DeadLetter | DeadLetterSummary) -> str:
    """Where it stands, in a word or two."""
    if letter.settlement is not None:
        return letter.settlement
    return "open" if letter.replay_asked_at is None else "replay asked"


def draw(shown: Shown) -> None:
    """Facts, log and differences; the body last, as it came."""
    members = _facts(shown.letter)
    body = members.pop("body", None) or members.pop("body_hex", "")
    for name, value in members.items():
        say(f"{name:15} {value if value not in (None, '', {}) else NONE}")
    if shown.log:
        say("\nwhat was done to it:")
        show_rows(("at", "by", "what", "note"), map(_event, shown.log), nothing="")
    if shown.comparison is not None:
        _draw_comparison(shown.comparison)
    say(f"\n{body}")


def members(shown: Shown) -> dict[str, Any]:
    """The same for programs."""
    facts = _facts(shown.letter)
    return {**facts, "log": shown.log, "accepted": shown.comparison}


def _draw_comparison(comparison: Comparison) -> None:
    accepted = f"{comparison.order} ({comparison.state}, received {moment(comparison.received_at)})"
    if not comparison.differences:
        say(f"\nthe same order was accepted: {accepted}")
        return
    say(f"\ndiffers from the order that was accepted, {accepted}:")
    first = comparison.differences[:_MOST_DIFFERENCES]
    show_rows(("field", "accepted", "dead"), map(_difference, first), nothing="")
    if len(comparison.differences) > len(first):
        say(f"and {len(comparison.differences) - len(first)} more; --json shows all")


def _difference(found: Difference) -> Sequence[str]:
    accepted = _NOT_THERE if found.kind == "added" else _short(found.accepted)
    dead = _NOT_THERE if found.kind == "missing" else _short(found.dead)
    return escaped(found.path), escaped(accepted), escaped(dead)


def _short(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _event(event: LetterEvent) -> Sequence[str]:
    what = event.what.replace("_", " ")
    return moment(event.at), escaped(event.who), what, escaped(event.note or NONE)


def _facts(letter: DeadLetter) -> dict[str, Any]:
    """What is shown of it; a body that is no text stands there in hexadecimal."""
    facts: dict[str, Any] = {
        "id": str(letter.id),
        "at": letter.at.isoformat(),
        "queue": letter.queue,
        "client": letter.client,
        "reason": letter.reason,
        "detail": letter.detail,
        "state": state(letter),
        "settled_at": letter.settled_at.isoformat() if letter.settled_at is not None else None,
        "message_id": letter.message_id,
        "type": letter.type,
        "correlation_id": letter.correlation_id,
        "reply_to": letter.reply_to,
        "content_type": letter.content_type,
        "headers": orjson.loads(letter.headers),
    }
    try:
        facts["body"] = letter.body.decode()
    except UnicodeDecodeError:
        facts["body_hex"] = letter.body.hex()
    return facts
