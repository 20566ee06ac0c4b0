"""Meters that are read before and after: CPU of processes, commits of the database, messages of the broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import quote

import aiohttp
import asyncpg
import psutil
from yarl import URL

DATABASE_SECONDS: Final = 10.5
"""Postgres' sessions report their commits when they go on, or 10 s after they fell idle."""
BROKER_SECONDS: Final = 5.5
"""The broker sums up its messages every 5 s."""


@dataclass(frozen=True)
class Cpu:
    """CPU seconds (user and system) by name of process."""

    seconds: Mapping[str, float]

    @classmethod
    def read(cls, pids: Mapping[str, int]) -> Self:
        """Of these processes with all their children, those that have ended included."""
        return cls({name: _seconds(pid) for name, pid in pids.items()})

    def since(self, before: Cpu) -> dict[str, float]:
        """What was used in between."""
        return {name: now - before.seconds[name] for name, now in self.seconds.items()}


def _seconds(pid: int) -> float:
    process = psutil.Process(pid)
    own = process.cpu_times()
    ended = own.children_user + own.children_system
    running = 0.0
    for child in process.children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue  # it ended just now, and stands among the ended children at the next reading
        running += times.user + times.system
    return float(own.user + own.system + ended + running)


class Counters:
    """Commits and published messages so far, as the servers count them."""

    def __init__(self, database: asyncpg.Connection, management_url: str, vhost: str) -> None:
        self._database = database
        self._vhost = URL(f"{management_url}/api/vhosts/{quote(vhost, safe='')}", encoded=True)

    async def commits(self) -> int:
        """Transactions that wrote something, by everybody: each has a transaction id. One that only reads waits for no
        disk.
        """
        commits: int = await self._database.fetchval(
            "select pg_snapshot_xmax(pg_current_snapshot())::text::int8"
        )
        return commits

    async def messages(self) -> int:
        """Messages published in the vhost."""
        async with aiohttp.ClientSession() as session, session.get(self._vhost) as answer:
            answer.raise_for_status()
            vhost: dict[str, Any] = await answer.json()
        return int(vhost.get("message_stats", {}).get("publish", 0))
