"""All statuses of a client, for whoever wants to see them as they come."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from triumvir.contracts.messages import Status
from triumvir.errors import BrokerError

MOST_UNREAD: Final = 10_000


class Feed:
    """A bounded buffer between the status queue and one reader. A reader that falls behind is cut off, and told."""

    def __init__(self, most: int = MOST_UNREAD) -> None:
        self._unread: deque[Status] = deque()
        self._most = most
        self._changed = asyncio.Event()
        self._fault: BrokerError | None = None

    def put(self, status: Status) -> None:
        """Add one; the one too many ends the feed."""
        if len(self._unread) >= self._most:
            self.fail(
                BrokerError(
                    f"{self._most} statuses were left unread, so no more are kept;"
                    " read faster, or ask for single orders with client.order(...)"
                )
            )
        elif self._fault is None:
            self._unread.append(status)
            self._changed.set()

    def fail(self, fault: BrokerError) -> None:
        """Nothing comes after what is there."""
        self._fault = self._fault or fault
        self._changed.set()

    async def next(self) -> Status:
        """The next status. Raises BrokerError once the feed has ended and all was read."""
        while not self._unread:
            if self._fault is not None:
                raise self._fault
            self._changed.clear()
            await self._changed.wait()
        return self._unread.popleft()
