"""Payloads that were read a short while ago: they never change, and every step of an order needs them again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from triumvir.lifecycle import OrderRecord
from triumvir.store import orders
from triumvir.store.statements import Connection

_LIMIT: Final = 32 * 1024 * 1024
"""Characters kept at most."""


class Payloads:
    """A bounded cache of order payloads by order number; the one not asked for longest goes first."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._texts: OrderedDict[int, str] = OrderedDict()
        self._size = 0

    async def of(self, connection: Connection, records: Sequence[OrderRecord]) -> dict[int, str]:
        """The payload text of each order that has one."""
        found: dict[int, str] = {}
        for record in records:
            text = self._texts.get(record.no)
            if text is not None:
                self._texts.move_to_end(record.no)
                found[record.no] = text
        missing = [record for record in records if record.no not in found]
        if missing:
            read = await orders.payloads(connection, missing)
            for no, text in read.items():
                self._keep(no, text)
            found.update(read)
        return found

    def _keep(self, no: int, text: str) -> None:
        self._texts[no] = text
        self._size += len(text)
        while self._size > self._limit and len(self._texts) > 1:
            _, dropped = self._texts.popitem(last=False)
            self._size -= len(dropped)
