"""Batches that raised although they may have been committed: whose requests were then never sent by anybody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from triumvir.runtime.applied import Applied

MOST: Final = 10_000
"""Of more than these the oldest are forgotten: the outbox still has their requests."""


@dataclass(frozen=True, slots=True)
class Move:
    """What a batch would have sent for an order: the row of its history that says so, and what the order waits for."""

    no: int
    n: int
    at: datetime
    lock: UUID | None
    sent_at: datetime | None
    retries: int


class Unheard:
    """What the batches of one process would have sent. It is brought forward only if its row is there, so that it was
    committed, and if the order still waits for it.
    """

    def __init__(self) -> None:
        self._moves: dict[int, Move] = {}

    def note(self, batches: Iterable[Applied]) -> None:
        """A transaction in which this was decided has raised."""
        for applied in batches:
            sent = {record.no for record, _ in applied.sent_requests}
            for _, decision in applied.decisions:
                record, log = decision.record, decision.log
                if record.no in sent and log:
                    self._moves[record.no] = Move(
                        record.no, log[-1].n, log[-1].at, record.locked_by, record.sent_at, record.retries
                    )
        while len(self._moves) > MOST:
            del self._moves[next(iter(self._moves))]

    def take(self) -> list[Move]:
        """All of them, in order of their numbers; they are in the caller's hands now."""
        taken, self._moves = self._moves, {}
        return [taken[no] for no in sorted(taken)]

    def give_back(self, moves: Iterable[Move]) -> None:
        """They could not be looked at; what was noted meanwhile counts."""
        self._moves = {move.no: move for move in moves} | self._moves
