"""What ``triumvir doctor`` finds between the state repository and a database for documents alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from triumvir.cli.findings import Finding, ill, well
from triumvir.cli.output import duration
from triumvir.settings import Settings
from triumvir.store.statements import Connection, Row, statement

PATIENCE: Final = timedelta(minutes=1)
"""A document that is older than its age by more than this should have been compared."""


async def left_behind(state: Connection) -> list[Finding]:
    """Documents that nobody reads, because they are in the state repository still."""
    if not await statement("documents_left_here").value(state):
        return []
    problem = "the state repository still has documents, which nobody reads there any more"
    fix = "copy them to the orders database, then empty the table: docs/howto/use-two-databases.md"
    return [ill("documents in the state repository", problem, fix)]


async def compared(connection: Connection, settings: Settings, mark: Row) -> Finding:
    """Whether supervisors compare documents with orders; ``mark`` says how far they came."""
    rows = await statement("documents_after").rows(
        connection,
        after=mark["checked_at"],
        after_client=mark["checked_client"],
        after_order_id=mark["checked_order_id"],
        age_seconds=(settings.lone_document_age + PATIENCE) / timedelta(seconds=1),
        most=1,
    )
    if not rows:
        return well("documents", "each of some age was compared with the orders")
    there: datetime = await statement("clock").value(connection)
    return ill(
        "documents",
        f"those of the last {duration(there - rows[0]['at'])} were not compared with the orders: one without an order"
        " would not get one",
        "see that a supervisor runs, and that there is room: TRIUMVIR_MAX_OPEN_ORDERS",
    )
