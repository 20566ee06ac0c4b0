"""Running a batch in one transaction: repeated on a deadlock, halved down to the one row that Postgres refuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from triumvir.store.faults import Fault, fault
from triumvir.telemetry import events, metrics
from triumvir.telemetry.logs import get_logger

MOST_REPEATS: Final = 5
FEW: Final = 8
"""So many items at most are handled in one statement that is a transaction of its own, without a lock taken or a look
had before: with more, one of them may well turn out to be in the way of all.
"""

T = TypeVar("T")
log = get_logger(__name__)


async def run_batch(
    name: str,
    items: Sequence[T],
    run: Callable[[Sequence[T]], Awaitable[None]],
    set_aside: Callable[[T, Exception], Awaitable[None]],
) -> None:
    """Runs ``run`` over all items in one transaction of its own.

    On a data error nothing of it stands, so the halves are run, down to the one item that fails alone: it
    goes to ``set_aside``. Any other error is raised: nothing may be acknowledged then.
    """
    try:
        await _repeated(name, items, run)
    except Exception as error:
        if fault(error) is not Fault.DATA:
            raise
        log.warning(events.BATCH_SPLIT, batch=name, items=len(items), error=str(error))
        if len(items) == 1:
            await set_aside(items[0], error)
            return
        half = len(items) // 2
        await run_batch(name, items[:half], run, set_aside)
        await run_batch(name, items[half:], run, set_aside)


async def _repeated(name: str, items: Sequence[T], run: Callable[[Sequence[T]], Awaitable[None]]) -> None:
    for left in reversed(range(MOST_REPEATS)):
        try:
            await run(items)
        except Exception as error:
            if fault(error) is not Fault.AGAIN or not left:
                raise
            metrics.BATCH_REPEATS.add(1, name)
            log.info(events.BATCH_REPEATED, batch=name, items=len(items), error=str(error))
        else:
            return
