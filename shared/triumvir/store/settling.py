"""What operators do to dead letters: each once, whoever does it at the same time, and written down with who did it."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from triumvir.store.operators import storable
from triumvir.store.statements import Connection, statement

Settlement = Literal["discarded", "resolved"]


async def ask_replay(connection: Connection, letter_id: UUID, who: str, note: str | None) -> int | None:
    """Have a submitter handle an open letter again; the number of that in the letter's log, for its answer comes
    after it. None: it is settled, or a replay waits already.
    """
    asked: int | None = await statement("ask_replay").value(
        connection, id=letter_id, who=storable(who), note=storable(note)
    )
    return asked


async def settle(
    connection: Connection, letter_id: UUID, settlement: Settlement, who: str, note: str
) -> bool:
    """Settle an open letter. No: it is settled already, or a replay of it waits for its answer."""
    settled = await statement("settle_dead_letter").value(
        connection, id=letter_id, settlement=settlement, who=storable(who), note=storable(note)
    )
    return settled is not None
