"""``triumvir orders reveals``: who looked at the data of confidential orders. Looking leaves a line there first."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from triumvir.cli.concealment import concealed, is_confidential
from triumvir.cli.equipment import settings
from triumvir.cli.order_view import escaped
from triumvir.cli.output import NONE, moment, run, show_rows, write_json
from triumvir.contracts.names import order_key
from triumvir.store.operators import connect
from triumvir.store.reads import OrderDetail
from triumvir.store.reveals import Reveal, log_reveal, reveals
from triumvir.store.statements import Connection


async def as_asked(
    connection: Connection, detail: OrderDetail, reveal: bool, command: str, reason: str | None
) -> OrderDetail:
    """The order as it may be shown: with the data of a confidential one only if that is written down first."""
    if not reveal:
        return concealed(detail)
    if is_confidential(detail):
        order = detail.order
        who = f"operator:{getpass.getuser()}"
        key = order.client, order.order_id
        await log_reveal(connection, key, order.workflow, who=who, command=command, reason=reason)
    return detail


def list_reveals(
    client: Annotated[str | None, typer.Option(help="Only orders of this client.")] = None,
    order_id: Annotated[str | None, typer.Option("--order", help="Only orders of this id.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON array instead of a table.")] = False,
) -> None:
    """List who looked at the data of confidential orders, when and why, the newest first.

    Kept for TRIUMVIR_OPERATOR_LOG_RETENTION.

    \b
    Examples:
      triumvir orders reveals
      triumvir orders reveals --client shop-a --order 536365
    """

    async def read() -> list[Reveal]:
        async with connect(settings()) as connection:
            return await reveals(connection, client, order_id, limit)

    found = run(read())
    if as_json:
        write_json(found)
        return
    show_rows(
        ("at", "who", "database user", "order", "workflow", "command", "reason"),
        (_row(each) for each in found),
        nothing="nobody looked",
    )


def _row(each: Reveal) -> tuple[str, ...]:
    key = escaped(order_key(each.client, each.order_id))
    reason = escaped(each.reason or NONE)
    return moment(each.at), escaped(each.who), escaped(each.by_user), key, each.workflow, each.command, reason
