"""The clock of a rehearsal: the seconds of its loop, and the same as the database would tell them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

START: Final = datetime(2030, 1, 1, tzinfo=UTC)
"""When every order is accepted: the same inputs make the same outcome, to the fence."""


class Clock:
    """The time of the loop that runs now; may be read from its threads."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def seconds(self) -> float:
        """Since the loop began."""
        return self._loop.time()

    def now(self) -> datetime:
        """As the database would tell it."""
        return START + timedelta(seconds=self._loop.time())

    @staticmethod
    def of(at: datetime) -> float:
        """The seconds of an instant."""
        return (at - START).total_seconds()
