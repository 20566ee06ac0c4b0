"""``triumvir dead``: messages that could not be accepted, as they came."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer
from rich.markup import escape as escaped

from triumvir.cli.equipment import settings
from triumvir.cli.output import NONE, moment, run, say, show_rows, write_json
from triumvir.errors import ConfigurationError
from triumvir.store.operators import connect
from triumvir.store.reads import DeadLetter, DeadLetterSummary, Reads

app = typer.Typer(
    help="Messages that could not be accepted.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_dead_letters(
    queue: Annotated[str | None, typer.Option(help="Only those of this queue.")] = None,
    client: Annotated[str | None, typer.Option(help="Only those of this client.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON array instead of a table.")] = False,
) -> None:
    """List dead letters, the newest first.

    \b
    Examples:
      triumvir dead list
      triumvir dead list --client shop-a --json
    """

    async def read() -> list[DeadLetterSummary]:
        async with connect(settings()) as connection:
            return await Reads(connection).dead_letters(queue=queue, client=client, limit=limit)

    found = run(read())
    if as_json:
        write_json(found)
        return
    show_rows(
        ("id", "at", "queue", "client", "reason", "detail"),
        (
            (
                str(letter.id)[:8],
                moment(letter.at),
                letter.queue,
                escaped(letter.client or NONE),
                escaped(letter.reason),
                escaped(letter.detail),
            )
            for letter in found
        ),
        nothing="no dead letters",
    )


@app.command("show")
def show_dead_letter(
    letter_id: Annotated[str, typer.Argument(metavar="ID", help="Its id, or how the id begins.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Show one dead letter: where it came from, why it was refused, and its body as it came.

    \b
    Example:
      triumvir dead show 3f2a9c01
    """

    async def read() -> DeadLetter | None:
        async with connect(settings()) as connection:
            return await Reads(connection).dead_letter(letter_id)

    found = run(read())
    if found is None:
        raise ConfigurationError(f"no dead letter's id begins with {letter_id!r}; see: triumvir dead list")
    shown = _members(found)
    if as_json:
        write_json(shown)
        return
    body = shown.pop("body", None) or shown.pop("body_hex")
    for name, value in shown.items():
        say(f"{name:15} {value if value not in (None, '', {}) else NONE}")
    say(f"\n{body}")


def _members(letter: DeadLetter) -> dict[str, Any]:
    """What is shown of it; a body that is no text stands there in hexadecimal."""
    members: dict[str, Any] = {
        "id": str(letter.id),
        "at": letter.at.isoformat(),
        "queue": letter.queue,
        "client": letter.client,
        "reason": letter.reason,
        "detail": letter.detail,
        "message_id": letter.message_id,
        "type": letter.type,
        "correlation_id": letter.correlation_id,
        "reply_to": letter.reply_to,
        "headers": orjson.loads(letter.headers),
    }
    try:
        members["body"] = letter.body.decode()
    except UnicodeDecodeError:
        members["body_hex"] = letter.body.hex()
    return members
