"""What the client was told of its orders, counted as it comes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

ENDS: Final = frozenset({"completed", "compensated", "cancelled", "closed", "rejected"})
RESTS: Final = frozenset({"failed", "compensation_failed"})
"""An operator would have to decide; the demo counts it as amiss."""

OnStatus = Callable[["Following", str, str, str | None], None]


class Following:
    """The last status of each order. ``on_status(following, order_id, status, detail)`` is called for each told."""

    def __init__(self, total: int, on_status: OnStatus) -> None:
        self.total = total
        self.last: dict[str, str] = {}
        self._on_status = on_status
        self._ended = 0
        self._awaited: list[tuple[int, asyncio.Event]] = []

    @property
    def ended(self) -> int:
        return self._ended

    @property
    def open(self) -> int:
        return self.total - self._ended

    def counts(self) -> Counter[str]:
        """How many orders stand at each status."""
        return Counter(self.last.values())

    def told(self, order_id: str, status: str, detail: str | None = None) -> bool:
        """Takes a status; whether nothing more is to be expected of this order."""
        over = status in ENDS or status in RESTS
        self._ended += over - (self.last.get(order_id) in ENDS | RESTS)
        self.last[order_id] = status
        self._on_status(self, order_id, status, detail)
        self._wake()
        return over

    async def until_ended(self, share: float) -> None:
        """Returns once this share (0 to 1) of all orders has come to an end."""
        event = asyncio.Event()
        self._awaited.append((min(self.total, int(self.total * share) + 1), event))
        self._wake()
        await event.wait()

    def _wake(self) -> None:
        for count, event in self._awaited:
            if self._ended >= count:
                event.set()
