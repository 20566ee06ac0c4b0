"""Payloads that were read a short while ago: they never change, and every step of an order needs them again.

Where documents have a database of their own they are read before any row of an order is locked: a lock must not wait
for another server.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from triumvir.errors import DocumentsAway
from triumvir.lifecycle import OrderRecord
from triumvir.store import orders
from triumvir.store.documents import AWAY, OrdersDatabase
from triumvir.store.statements import Connection, statement
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

_LIMIT: Final = 32 * 1024 * 1024
"""Characters kept at most."""

log = get_logger(__name__)


class Payloads:
    """A bounded cache of order payloads by order number; the one not asked for longest goes first.

    ``documents``: the orders database, if there is one. While it is away (``away``), nothing is dispatched.
    """

    def __init__(self, documents: OrdersDatabase | None = None, limit: int = _LIMIT) -> None:
        self.documents = documents
        self.away = False
        self._limit = limit
        self._texts: OrderedDict[int, str] = OrderedDict()
        self._size = 0
        self._absent: set[int] = set()

    async def of(self, connection: Connection, records: Sequence[OrderRecord]) -> dict[int, str]:
        """The payload text of each order that has one; with an orders database, of those that are here already."""
        found: dict[int, str] = {}
        for record in records:
            text = self._texts.get(record.no)
            if text is not None:
                self._texts.move_to_end(record.no)
                found[record.no] = text
        missing = [record for record in records if record.no not in found]
        if missing and self.documents is None:
            read = await orders.payloads(connection, missing)
            self.keep(read)
            found.update(read)
        return found

    def keep(self, texts: Mapping[int, str]) -> None:
        """Payloads by order number that were read on the way, from the state repository: with an orders database, that
        one counts.
        """
        if self.documents is None:
            for no, text in texts.items():
                self._keep(no, text)

    def to_fetch(self, nos: Iterable[int]) -> list[int]:
        """Which of these orders cannot be dispatched before :meth:`fetch`; none while that would be in vain."""
        if self.documents is None or self.away:
            return []
        return [no for no in nos if no not in self._texts and no not in self._absent]

    def unread(self, records: Iterable[OrderRecord], found: Collection[int]) -> set[int]:
        """Which of these cannot be decided on, because their documents are elsewhere and were not fetched."""
        if self.documents is None:
            return set()
        nos = {record.no for record in records}
        return nos - set(found) - self._absent

    async def fetch(self, connection: Connection, nos: Collection[int]) -> None:
        """Reads the documents of these orders from the orders database. ``connection``, to the state repository, must
        hold no locks. Never raises because the orders database is away: it is noted.
        """
        if self.documents is None or not nos:
            return
        rows = await statement("document_keys").rows(connection, nos=list(nos))
        try:
            found = await self.documents.read([(row["client"], row["order_id"]) for row in rows])
        except DocumentsAway as error:
            self._note(str(error))
            return
        for row in rows:
            document = found.get((row["client"], row["order_id"]))
            if document is not None and document.digest == row["digest"]:
                self._keep(row["no"], document.payload)
            else:
                self._absent.add(row["no"])

    def is_absent(self, no: int) -> bool:
        """Whether the order has no document, or that of another order. Told once: the next look reads again."""
        if self.documents is None:
            return True
        told = no in self._absent
        self._absent.discard(no)
        return told

    async def look(self) -> bool:
        """Notes whether the orders database answers; a loop's step."""
        if self.documents is not None:
            self._note(await self.documents.ready())
        return False

    def _note(self, problem: str | None) -> None:
        if problem is not None and not self.away:
            log.warning(events.DATABASE_LOST, database="orders", error=problem, held=AWAY)
        elif problem is None and self.away:
            log.info(events.DATABASE_FOUND, database="orders")
        self.away = problem is not None

    def _keep(self, no: int, text: str) -> None:
        if no in self._texts:
            return
        self._texts[no] = text
        self._size += len(text)
        while self._size > self._limit and len(self._texts) > 1:
            _, dropped = self._texts.popitem(last=False)
            self._size -= len(dropped)
