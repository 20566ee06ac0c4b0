"""``triumvir orders retry | skip | compensate | resume | close | pause | unpause``: an operator moves an order."""

from __future__ import annotations

import asyncio
import getpass
import time
from collections.abc import Callable
from typing import Annotated, Final

import typer

from triumvir.cli.equipment import settings
from triumvir.cli.orders import KEY_HELP, split_key
from triumvir.cli.output import note, run, say
from triumvir.contracts.json_text import parse_value
from triumvir.errors import ConfigurationError, ContractError, TriumvirError, UnknownOrder
from triumvir.lifecycle import LIVE, RESTING, Action, State, operator_words
from triumvir.store.operators import ask_move, connect
from triumvir.store.reads import OrderDetail, Reads
from triumvir.store.statements import Connection

FITS: Final[dict[Action, frozenset[State]]] = {
    "retry": frozenset({"error"}),
    "skip": RESTING,
    "compensate": frozenset({"pending", "processing", "error"}),
    "resume": frozenset({"compensation_failed"}),
    "close": RESTING,
    "pause": LIVE,
    "unpause": LIVE | RESTING,
}
_HOWEVER_IT_IS: Final = frozenset({"pause", "unpause"})
"""What means the same whatever became of the order since it was looked at."""
_ASKED: Final = tuple(f"{action} by " for action in FITS)
"""How the history begins to tell of a move that was refused."""
_LOOK_SECONDS: Final = 0.1

Key = Annotated[str, typer.Argument(metavar=KEY_HELP, help="The order's key.")]
Reason = Annotated[str | None, typer.Option(help="Kept in the order's history and told to its client.")]
Why = Annotated[str, typer.Option(help="Kept in the order's history and told to its client.")]
Wait = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="How long to wait for a scheduler to do it.")
]


def retry(key: Key, reason: Reason = None, wait: Wait = 10) -> None:
    """Try the step that failed again, and go on from there. For orders in `error`.

    Failures are counted anew. If the step surely left no effect, it gets a new idempotency key, so that the remote
    service does not answer with the refusal it remembers.

    \b
    Example:
      triumvir orders retry shop-a/536365 --reason "card was renewed"
    """
    _move(key, "retry", reason, wait)


def skip(
    key: Key,
    reason: Why,
    result: Annotated[str, typer.Option(metavar="JSON", help="What the step would have returned.")] = "null",
    wait: Wait = 10,
) -> None:
    """Count the step, or the undo, that failed as done by hand, and go on. For orders that rest.

    Do it by hand first. A step that was skipped so is undone with the others if the order is compensated later.

    \b
    Example:
      triumvir orders skip shop-a/536365 --reason "paid in cash" --result '{"receipt": "17"}'
    """
    try:
        text = parse_value(result, max_depth=settings().max_json_depth).text
    except ContractError as error:
        raise ConfigurationError(f"--result: {error}") from None
    _move(key, "skip", reason, wait, text)


def compensate(key: Key, reason: Reason = None, wait: Wait = 10) -> None:
    """Undo what was done: at once if the order is in `error`, else at its next answer or deadline.

    \b
    Example:
      triumvir orders compensate shop-a/536365 --reason "out of stock for good"
    """
    _move(key, "compensate", reason, wait)


def resume(key: Key, reason: Reason = None, wait: Wait = 10) -> None:
    """Go on undoing, at the undo that failed. For orders in `compensation_failed`.

    \b
    Example:
      triumvir orders resume shop-a/536365 --reason "the bank is back"
    """
    _move(key, "resume", reason, wait)


def close(key: Key, reason: Why, wait: Wait = 10) -> None:
    """End an order that rests: what is left to do is done outside.

    \b
    Example:
      triumvir orders close shop-a/536365 --reason "settled with the customer"
    """
    _move(key, "close", reason, wait)


def pause(
    key: Key,
    reason: Annotated[str, typer.Option(help="Kept in the order's history, and shown while it is paused.")],
    wait: Wait = 10,
) -> None:
    """Have an order stand still, whatever it is doing. Nothing is counted against it for that.

    What is under way runs to its answer or deadline; then the order is held, and its client is told so once. All orders
    of a workflow: `workflows pause`; all that need an agent: `agents pause`.

    \b
    Example:
      triumvir orders pause shop-a/536365 --reason "customer asked us to wait"
    """
    _move(key, "pause", reason, wait)


def unpause(
    key: Key,
    reason: Annotated[str | None, typer.Option(help="Kept in the order's history.")] = None,
    wait: Wait = 10,
) -> None:
    """Let a paused order go on where it was, with a fresh deadline.

    \b
    Example:
      triumvir orders unpause shop-a/536365 --reason "customer called back"
    """
    _move(key, "unpause", reason, wait)


def _move(key: str, action: Action, reason: str | None, wait: float, result: str | None = None) -> None:
    client, order_id = split_key(key)
    who = f"operator:{getpass.getuser()}"

    async def ask() -> tuple[OrderDetail, OrderDetail | None]:
        async with connect(settings()) as connection:
            seen = await _seen(connection, key, action)
            asked = await ask_move(
                connection,
                client,
                order_id,
                action,
                who=who,
                reason=reason,
                fence=None if action in _HOWEVER_IT_IS else seen.order.fence,
                result=result,
            )
            until = time.monotonic() + wait
            while not await Reads(connection).is_taken(client, order_id, asked):
                if time.monotonic() >= until:
                    return seen, None
                await asyncio.sleep(_LOOK_SECONDS)
            return seen, await Reads(connection).order(client, order_id)

    _tell(key, action, operator_words(action, who, reason), *run(ask()))


async def _seen(connection: Connection, key: str, action: Action) -> OrderDetail:
    found = await Reads(connection).order(*split_key(key))
    if found is None:
        raise UnknownOrder(f"there is no order {key!r}")
    if found.order.state not in FITS[action]:
        fitting = " or ".join(sorted(FITS[action]))
        raise ConfigurationError(f"{key} is {found.order.state}; {action} is for orders in {fitting}")
    return found


def _tell(key: str, action: Action, words: str, seen: OrderDetail, now: OrderDetail | None) -> None:
    """What came of it. Others may have asked for something at the same time: ``words`` are those of this move."""
    if now is None:
        note("no scheduler has taken it yet; it waits in the store, and is done once one runs")
        say(f"asked for; see: triumvir orders show {key}")
        return
    new = [row for row in now.history if row.n > seen.order.history]
    refusals = [why for row in new if (why := row.why).startswith(_ASKED) and " refused: " in why]
    mine = [why for why in refusals if why.startswith(f"{action} by ")]
    if mine and not any(words in row.why for row in new):
        raise TriumvirError(f"{key}: {mine[-1]}")
    for row in new:
        if row.why not in refusals:
            say(row.why)
    say(f"{key} is {now.order.state}; see: triumvir orders show {key}")


COMMANDS: Final[dict[Action, Callable[..., None]]] = {
    "retry": retry,
    "skip": skip,
    "compensate": compensate,
    "resume": resume,
    "close": close,
    "pause": pause,
    "unpause": unpause,
}
