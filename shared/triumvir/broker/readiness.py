"""Whether a connection of the client library is ready, and waits that end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from aiormq.abc import AbstractConnection

_CLEAN_UP: Final = 1.0

_T = TypeVar("_T")


def is_ready(connection: AbstractConnection) -> bool:
    """Whether it is connected and not blocked: whether waiting for that would end at once."""
    waiting = connection.ready()
    try:
        waiting.send(None)
    except StopIteration:
        return True
    finally:
        waiting.close()
    return False


async def done_before_close(
    connection: AbstractConnection, work: Coroutine[Any, Any, _T]
) -> asyncio.Task[_T] | None:
    """Wait for ``work``, but not beyond the end of ``connection``, which some calls of aiormq do not notice."""
    closing = connection.closing
    task = asyncio.ensure_future(work)
    task.add_done_callback(_retrieve)
    try:
        await asyncio.wait((task, closing), return_when=asyncio.FIRST_COMPLETED)
        return task if task.done() and not connection.is_closed else None
    finally:
        closing.cancel()
        if not task.done():
            task.cancel()
            # its clean-up may wait for the writer of a dead connection
            task.get_loop().call_later(_CLEAN_UP, task.cancel)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Its error is known to have been looked at, also when nobody waits any more."""
    if not task.cancelled():
        task.exception()
