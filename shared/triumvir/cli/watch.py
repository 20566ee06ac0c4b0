"""``triumvir watch``: statuses as they come."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from triumvir.cli.board import status_line
from triumvir.cli.equipment import client_url
from triumvir.cli.output import run, stdout, write_json_line
from triumvir.client import Client
from triumvir.client.outcome import REFUSALS
from triumvir.contracts.messages import Status


def watch(
    order_ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ORDER_ID", help="Only these, from their first status on."),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="The client's URL; else TRIUMVIR_CLIENT_URL.", show_default=False)
    ] = None,
    instance: Annotated[str | None, typer.Option(help="Read the status queue of this instance.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line instead of text.")] = False,
) -> None:
    """Show a client's statuses live.

    Without ORDER_ID: every status that arrives from now on, until Ctrl-C. With ORDER_ID: those orders from their
    first status on, until each has ended; exit code 1 if one of them is not known. Another process of the same
    client that reads the same status queue would share it: give this one an --instance then.

    \b
    Examples:
      triumvir watch
      triumvir watch 536365 536366
      triumvir watch --json | jq .status
    """
    run(_watch(Client(client_url(url), instance=instance), order_ids or [], as_json=as_json))


async def _watch(client: Client, order_ids: list[str], *, as_json: bool) -> None:
    async with client:
        if order_ids:
            ends = await asyncio.gather(*(_watch_one(client, each, as_json=as_json) for each in order_ids))
            raise typer.Exit(1 if any(end in REFUSALS for end in ends) else 0)
        async for status in client.statuses():
            _show(status, as_json=as_json)


async def _watch_one(client: Client, order_id: str, *, as_json: bool) -> str:
    last = ""
    async for status in client.order(order_id).statuses():
        _show(status, as_json=as_json)
        last = status.status
    return last


def _show(status: Status, *, as_json: bool) -> None:
    if as_json:
        write_json_line(status.model_dump(mode="json"))
    else:
        stdout().print(status_line(status), soft_wrap=True)
