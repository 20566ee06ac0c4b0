"""The options of ``triumvir orders bulk``, and what they mean."""

from __future__ import annotations

from typing import Annotated

import typer

from triumvir.cli import order_view
from triumvir.cli.equipment import settings
from triumvir.contracts.json_text import parse_value
from triumvir.errors import ConfigurationError, ContractError
from triumvir.store.bulks import BulkAction
from triumvir.workflow.durations import duration_of

Text = str | None
Workflow = Annotated[Text, typer.Option(help="Only orders of this workflow.")]
Version = Annotated[int | None, typer.Option(min=1, help="Only this version of it.")]
Client = Annotated[Text, typer.Option(help="Only orders of this client.")]
States = Annotated[
    list[str] | None,
    typer.Option("--state", metavar="STATE", help="Only orders in this state; may be repeated."),
]
Step = Annotated[Text, typer.Option(metavar="NAME", help="Only orders that are at this step.")]
Error = Annotated[
    Text, typer.Option("--error-like", metavar="TEXT", help="Only those whose error holds this text.")
]
Older = Annotated[
    Text, typer.Option("--older-than", metavar="TIME", help="Received longer ago, such as 30m or 2d.")
]
Held = Annotated[
    Text, typer.Option("--held-by", metavar="TEXT", help="Held by a reason that begins like this.")
]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many, the oldest.")]
Result = Annotated[
    Text, typer.Option(metavar="JSON", help="Of skip alone: what each step would have returned.")
]
Why = Annotated[str, typer.Option("--reason", help="Kept in the history of each order.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it at once, without a question.")]
Rate = Annotated[float, typer.Option(min=0.01, help="Orders a second, over all who run it.")]
StopAt = Annotated[
    float,
    typer.Option("--stop-at", min=0, max=100, metavar="PERCENT", help="Stop above this share of failures."),
]
Wait = Annotated[
    float, typer.Option(min=1, metavar="SECONDS", help="Stop when no scheduler takes any for so long.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of words.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The id of the bulk, or how it begins.")]


def states_of(given: list[str] | None) -> tuple[str, ...] | None:
    """The states that were named. Raises BadParameter."""
    for state in given or ():
        if state not in order_view.STATES:
            known = ", ".join(order_view.STATES)
            raise typer.BadParameter(f"{state!r} is no state; there is {known}", param_hint="--state")
    return tuple(given) if given else None


def seconds_of(text: str) -> float:
    """Of a span such as 30m. Raises BadParameter."""
    try:
        return duration_of(text).total_seconds()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--older-than") from None


def result_of(action: BulkAction, given: str | None) -> str | None:
    """What a skip is given as result. Raises BadParameter, or ConfigurationError for what is no JSON."""
    if action != "skip" and given is not None:
        raise typer.BadParameter(f"{action} takes none; it is for skip", param_hint="--result")
    text = given or "null"
    try:
        return parse_value(text, max_depth=settings().max_json_depth).text
    except ContractError as error:
        raise ConfigurationError(f"--result: {error}") from None
