"""Load that goes on while servers fail, and waiting for what goes on in spite of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.faults.cluster import Cluster
from tests.waiting import eventually

WAVE: Final = 10
MOST_OPEN: Final = 40


@asynccontextmanager
async def under_load(cluster: Cluster, *kinds: str) -> AsyncIterator[None]:
    """Orders of these kinds, or of the whole mix, are submitted until the block is left, a wave at a time."""
    over = asyncio.Event()

    async def submit() -> None:
        while not over.is_set():
            await cluster.load.submit(WAVE, *kinds)
            await eventually(lambda: over.is_set() or cluster.load.open < MOST_OPEN, within=60)

    submitting = asyncio.create_task(submit(), name="load")
    try:
        yield
    except BaseException:
        submitting.cancel()
        await asyncio.gather(submitting, return_exceptions=True)
        raise
    over.set()
    await submitting


async def more_ended(cluster: Cluster, count: int, *, within: float = 90.0) -> None:
    """Until so many more orders have ended than now."""
    wanted = cluster.load.ended + count
    await eventually(
        lambda: cluster.load.ended >= wanted, within=within, what=f"{count} more orders at their end"
    )


async def time_passes(seconds: float) -> None:
    """The fault lasts so long."""
    until = asyncio.get_running_loop().time() + seconds
    await eventually(lambda: asyncio.get_running_loop().time() >= until, within=seconds + 5)


def said(cluster: Cluster, name: str, event: str) -> list[dict[str, Any]]:
    """The log lines of one event that a service wrote, in all its lives."""
    lines = cluster.services[name].log.read_text().splitlines()
    return [line for text in lines if f'"{event}"' in text if (line := json.loads(text))["event"] == event]
