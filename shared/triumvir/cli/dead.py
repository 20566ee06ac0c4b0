"""``triumvir dead``: messages that could not be accepted, as they came, and what becomes of them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape as escaped

from triumvir.cli import letter_view, settling
from triumvir.cli.equipment import settings
from triumvir.cli.output import NONE, moment, run, show_rows, write_json
from triumvir.store.operators import connect
from triumvir.store.reads import DeadLetterSummary, Reads

app = typer.Typer(
    help="Messages that could not be accepted: list, show, replay, discard, resolve.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_dead_letters(
    queue: Annotated[str | None, typer.Option(help="Only those of this queue.")] = None,
    client: Annotated[str | None, typer.Option(help="Only those of this client.")] = None,
    reason: Annotated[str | None, typer.Option(help="Only those refused for this reason.")] = None,
    settled: Annotated[bool, typer.Option("--all", help="Those that are settled, too.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON array instead of a table.")] = False,
) -> None:
    """List the dead letters that nobody has settled, the newest first.

    \b
    Examples:
      triumvir dead list
      triumvir dead list --client shop-a --json
      triumvir dead list --reason unknown_workflow
      triumvir dead list --all
    """

    async def read() -> list[DeadLetterSummary]:
        async with connect(settings()) as connection:
            return await Reads(connection).dead_letters(
                queue=queue, client=client, reason=reason, settled=settled, limit=limit
            )

    found = run(read())
    if as_json:
        write_json(found)
        return
    show_rows(
        ("id", "at", "queue", "client", "state", "reason", "detail"),
        (
            (
                str(letter.id)[:8],
                moment(letter.at),
                letter.queue,
                escaped(letter.client or NONE),
                letter_view.state(letter),
                escaped(letter.reason),
                escaped(letter.detail),
            )
            for letter in found
        ),
        nothing="no dead letters" if settled else "no open dead letters",
    )


@app.command("show")
def show_dead_letter(
    letter_id: Annotated[str, typer.Argument(metavar="ID", help="Its id, or how the id begins.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Show one dead letter: where it came from, why it was refused, what was done to it, and its body as it came.

    If an order was accepted under the id it names, the two are compared field by field.

    \b
    Example:
      triumvir dead show 3f2a9c01
    """

    async def read() -> letter_view.Shown:
        async with connect(settings()) as connection:
            letter = await settling.find(Reads(connection), letter_id)
            return await letter_view.look(connection, letter, settings())

    shown = run(read())
    if as_json:
        write_json(letter_view.members(shown))
    else:
        letter_view.draw(shown)


app.command("replay")(settling.replay)
app.command("discard")(settling.discard)
app.command("resolve")(settling.resolve)
