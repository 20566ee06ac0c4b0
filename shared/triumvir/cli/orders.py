"""``triumvir orders``: what the store holds, and asking for a cancel. What else operators do is in moves.py."""

from __future__ import annotations

import getpass
from enum import Enum
from typing import Annotated, Final

import typer

from triumvir.cli import order_view, undo_view
from triumvir.cli.equipment import settings
from triumvir.cli.output import NONE, coloured, moment, run, say, show_rows, write_json
from triumvir.cli.reveals import as_asked, list_reveals
from triumvir.cli.standing import waits_for
from triumvir.contracts.names import is_name, order_key
from triumvir.errors import ConfigurationError, UnknownOrder
from triumvir.store.operators import ask_cancel, connect
from triumvir.store.reads import OrderDetail, OrderSummary, Reads

app = typer.Typer(
    help="Orders in the store: list and show them, cancel them, move what rests.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

app.command("reveals")(list_reveals)

KEY_HELP: Final = "CLIENT/ORDER_ID"

State = Enum(  # type: ignore[misc]  # the states are spelled once, in the lifecycle
    "State", {state: state for state in order_view.STATES}, type=str
)


@app.command("list")
def list_orders(
    state: Annotated[State | None, typer.Option(metavar="STATE", help="Only orders in this state.")] = None,
    client: Annotated[str | None, typer.Option(help="Only orders of this client.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only orders of this workflow.")] = None,
    held: Annotated[bool, typer.Option("--held", help="Only orders that are held or paused.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON array instead of a table.")] = False,
) -> None:
    """List orders, the newest first.

    \b
    Examples:
      triumvir orders list
      triumvir orders list --state error --client shop-a
      triumvir orders list --held
      triumvir orders list --limit 1000 --json
    """

    async def read() -> list[OrderSummary]:
        async with connect(settings()) as connection:
            return await Reads(connection).orders(
                state=state.value if state else None, client=client, workflow=workflow, held=held, limit=limit
            )

    found = run(read())
    if as_json:
        write_json(found)
        return
    show_rows(
        ("order", "workflow", "state", "step", "attempt", "received", "ended", "waits for"),
        (_summary_row(order) for order in found),
        nothing="no such orders",
    )


@app.command("show")
def show_order(
    key: Annotated[str, typer.Argument(metavar=KEY_HELP, help="The order's key.")],
    history: Annotated[int, typer.Option(min=0, help="So many of the latest events; 0 shows all.")] = 30,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Data of confidential workflows, too; logged.")
    ] = False,
    reason: Annotated[str | None, typer.Option(help="Why --reveal; kept in its log.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of the drawing.")] = False,
) -> None:
    """Show one order: its steps (those not started too), calls, effects, undos, and all that happened.

    Of a confidential workflow, payload, results and errors are shown on demand only, and who asked is written down
    first: `orders reveals` lists it.

    \b
    Example:
      triumvir orders show shop-a/536365
      triumvir orders show shop-a/536365 --reveal --reason "ticket 4711"
    """
    client, order_id = split_key(key)

    async def read() -> OrderDetail | None:
        async with connect(settings()) as connection:
            found = await Reads(connection).order(client, order_id)
            return found and await as_asked(connection, found, reveal, "orders show", reason)

    found = run(read())
    if found is None:
        raise UnknownOrder(
            f"there is no order {key!r}; triumvir orders list --client {client} shows what there is"
        )
    if as_json:
        write_json(undo_view.as_json(found))
    else:
        order_view.draw(found, history)


@app.command("cancel")
def cancel_order(
    key: Annotated[str, typer.Argument(metavar=KEY_HELP, help="The order's key.")],
    reason: Annotated[
        str | None, typer.Option(help="Kept in the order's history and told to its client.")
    ] = None,
) -> None:
    """Have an order stopped, or undone if anything was begun.

    A scheduler takes the request between two steps; `orders show` tells what came of it.

    \b
    Example:
      triumvir orders cancel shop-a/536365 --reason "customer called"
    """
    client, order_id = split_key(key)
    who = f"operator:{getpass.getuser()}"

    async def ask() -> OrderDetail | None:
        async with connect(settings()) as connection:
            found = await Reads(connection).order(client, order_id)
            if found is not None and _uncancellable(found.order.state) is None:
                await ask_cancel(connection, client, order_id, who, reason)
            return found

    found = run(ask())
    if found is None:
        raise UnknownOrder(f"there is no order {key!r}")
    problem = _uncancellable(found.order.state)
    if problem is not None:
        raise ConfigurationError(f"{key} is {found.order.state}{problem}")
    say(f"asked for by {who}; see: triumvir orders show {key}")


def _uncancellable(state: str) -> str | None:
    """Why a cancel would be refused, as the end of a sentence; None if it would not."""
    if state in order_view.ENDED:
        return " already; there is nothing to cancel"
    if state == "compensation_failed":
        return ": its undo failed; triumvir orders resume, skip or close it"
    return None


def split_key(key: str) -> tuple[str, str]:
    """Client and order id. Raises BadParameter for what is no key."""
    client, slash, order_id = key.partition("/")
    if not slash or not is_name(client) or not order_id:
        raise typer.BadParameter(f"{key!r} is no order; write CLIENT/ORDER_ID, such as shop-a/536365")
    return client, order_id


def _summary_row(order: OrderSummary) -> tuple[str, ...]:
    waits = waits_for(order)
    if waits is None and order.waiting:
        waits = f"a signal, until {moment(order.complete_by)}"
    elif waits is None and order.locked:
        waits = f"its agent, until {moment(order.complete_by)}"
    elif waits is None and order.not_before is not None and order.ended_at is None:
        waits = f"not before {moment(order.not_before)}"
    elif waits is None and order.state in ("pending", "compensating"):
        waits = "a scheduler, or room at its agent"
    return (
        order_view.escaped(order_key(order.client, order.order_id)),
        f"{order.workflow} v{order.version}",
        coloured(order.state),
        str(order.step or NONE),
        str(order.attempt or NONE),
        moment(order.received_at),
        moment(order.ended_at),
        order_view.escaped(waits or NONE),
    )
