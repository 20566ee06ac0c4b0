"""Orders as this process left them: while nobody else moved one, its record need not be read again.

Every write of an order raises its history number and is guarded by the one before, so a record under an attempt is what
stands in the database as long as its history number does. Who decides on a remembered record either compares the
number under the order's lock, or lets the guard of the write compare it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from triumvir.lifecycle import OrderRecord

MOST_ORDERS: Final = 2000
LARGEST: Final = 16_384
"""Characters of results that one order may bring: larger ones are read again, so that memory stays bounded."""
CLOCK_SECONDS: Final = 1.0
"""The database's clock is gone by for so long after it was last read."""


class Recent:
    """What one process remembers. ``connects`` counts its connections to the database so far: after a new one nothing
    is believed, as the database may have been restored meanwhile, and numbers be given twice.
    """

    def __init__(self, connects: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._connects = connects
        self._clock = clock
        self._known_at = connects()
        self._records: OrderedDict[int, OrderRecord] = OrderedDict()
        self._ahead: tuple[datetime, float] | None = None

    def keep(self, records: Iterable[OrderRecord]) -> None:
        """Remembers orders as they were just committed; those that wait for no answer are forgotten."""
        self._believe()
        for record in records:
            self._records.pop(record.no, None)
            if record.locked_by is not None and _size(record) <= LARGEST:
                self._records[record.no] = record
        while len(self._records) > MOST_ORDERS:
            self._records.popitem(last=False)

    def forget(self, nos: Iterable[int]) -> None:
        """Somebody else moved them."""
        for no in nos:
            self._records.pop(no, None)

    def all_of(self, nos: Iterable[int]) -> dict[int, OrderRecord] | None:
        """These orders, for a write that is guarded; None if one of them is not known."""
        self._believe()
        found = {no: record for no in nos if (record := self._records.get(no)) is not None}
        return found if len(found) == len(set(nos)) else None

    def still(self, histories: Mapping[int, int]) -> dict[int, OrderRecord]:
        """Those of these locked orders, by history number, that are as this process left them."""
        self._believe()
        known = ((no, self._records.get(no)) for no in histories)
        return {no: record for no, record in known if record is not None and record.history == histories[no]}

    def note(self, now: datetime) -> None:
        """The database's clock, as an answer that came this moment told it."""
        at = self._clock()
        known = self.now()
        if known is None or known < now:  # the answer that travelled least says best how late it is
            self._ahead = now, at

    def now(self) -> datetime | None:
        """The database's clock by an answer of the last second, never ahead of it; None if there was none."""
        if self._ahead is None:
            return None
        told, at = self._ahead
        passed = self._clock() - at
        return told + timedelta(seconds=passed) if passed < CLOCK_SECONDS else None

    def _believe(self) -> None:
        if (connects := self._connects()) != self._known_at:
            self._known_at = connects
            self._records.clear()
            self._ahead = None


def _size(record: OrderRecord) -> int:
    return sum(len(step.result or "") + len(step.error or "") for step in record.steps)
