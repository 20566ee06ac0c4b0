"""``triumvir orders signal``: an operator sends what a step of an order waits for."""

from __future__ import annotations

import asyncio
import getpass
import time
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from triumvir.cli.equipment import settings
from triumvir.cli.moves import Key, Wait, Why
from triumvir.cli.orders import split_key
from triumvir.cli.output import note, run, say
from triumvir.contracts.json_text import JsonText, parse_value
from triumvir.contracts.names import NAME_PATTERN, is_name
from triumvir.errors import ConfigurationError, ContractError, TriumvirError, UnknownOrder
from triumvir.lifecycle import Signalled, signal_words
from triumvir.store.operators import ask_signal, connect
from triumvir.store.reads import HistoryRow, OrderDetail, Reads

_LOOK_SECONDS: Final = 0.1


def signal(
    key: Key,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal that the step waits for.")],
    reason: Why,
    data: Annotated[str, typer.Option(metavar="JSON", help="The result of the step that waits.")] = "null",
    wait: Wait = 10,
) -> None:
    """Send an order the signal that a step of it waits for, or will wait for. The first one of its name counts.

    `workflows show` names the signals of a workflow; `orders show` says for which one an order waits.

    \b
    Example:
      triumvir orders signal shop-a/536365 approval --data '{"approved": true}' --reason "called the customer"
    """
    if not is_name(name):
        raise ConfigurationError(f"NAME is {name!r}; a signal's name matches {NAME_PATTERN}")
    client, order_id = split_key(key)
    sent = Signalled(name, _data(data).text, f"operator:{getpass.getuser()}", reason)

    async def ask() -> tuple[OrderDetail, OrderDetail | None]:
        async with connect(settings()) as connection:
            reads = Reads(connection)
            seen = await reads.order(client, order_id)
            if seen is None:
                raise UnknownOrder(f"there is no order {key!r}")
            asked = await ask_signal(
                connection, client, order_id, name, sent.data, who=sent.by, reason=reason
            )
            until = time.monotonic() + wait
            while not await reads.is_taken(client, order_id, asked):
                if time.monotonic() >= until:
                    return seen, None
                await asyncio.sleep(_LOOK_SECONDS)
            return seen, await reads.order(client, order_id)

    _tell(key, signal_words(sent), *run(ask()))


def _data(text: str) -> JsonText:
    try:
        data = parse_value(text, max_depth=settings().max_json_depth)
    except ContractError as error:
        raise ConfigurationError(f"--data: {error}") from None
    size, most = len(data.text.encode()), settings().max_payload_bytes
    if size > most:
        raise ConfigurationError(f"--data has {size} bytes, {most} are allowed; pass a reference")
    return data


def _tell(key: str, words: str, seen: OrderDetail, now: OrderDetail | None) -> None:
    """What came of it, and what followed."""
    if now is None:
        note("no scheduler has taken it yet; it waits in the store, and counts once one runs")
        say(f"sent; see: triumvir orders show {key}")
        return
    new = [row for row in now.history if row.n > seen.order.history]
    mine = _answer(new, words)
    if mine is not None and mine.status == "signal_refused":
        raise TriumvirError(f"{key}: {mine.why}")
    for row in new:
        say(row.why)
    say(f"{key} is {now.order.state}; see: triumvir orders show {key}")


def _answer(rows: Sequence[HistoryRow], words: str) -> HistoryRow | None:
    return next((row for row in reversed(rows) if row.why.startswith(words)), None)
