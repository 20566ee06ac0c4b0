"""A batch that Postgres refuses is halved down to the one row that is at fault."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
import pytest

from triumvir.runtime.batches import MOST_REPEATS, run_batch


class Table:
    """Takes batches as a transaction does: all of one, or nothing. ``runs`` are the sizes that were tried."""

    def __init__(self, *bad: int, error: type[Exception] = asyncpg.DataError, failures: int = 0) -> None:
        self._bad = set(bad)
        self._error = error
        self._failures = failures
        self.runs: list[int] = []
        self.written: list[int] = []
        self.aside: list[tuple[int, str]] = []

    async def run(self, items: Sequence[int]) -> None:
        self.runs.append(len(items))
        if self._failures:
            self._failures -= 1
            raise asyncpg.DeadlockDetectedError("deadlock")
        if self._bad & set(items):
            raise self._error("refused")
        self.written += items

    async def set_aside(self, item: int, error: Exception) -> None:
        self.aside.append((item, str(error)))

    async def take(self, items: Sequence[int]) -> None:
        await run_batch("test", items, self.run, self.set_aside)


async def test_a_good_batch_is_one_transaction() -> None:
    table = Table()
    await table.take(range(200))
    assert (table.runs, table.aside) == ([200], [])


async def test_one_bad_row_of_two_hundred_costs_seventeen_transactions_and_its_neighbours_nothing() -> None:
    table = Table(77)
    await table.take(range(200))
    assert table.aside == [(77, "refused")]
    assert sorted(table.written) == [n for n in range(200) if n != 77]
    assert len(table.runs) <= 17


@pytest.mark.parametrize("bad", [(0,), (6,), (0, 6), (2, 3, 4), tuple(range(7))])
async def test_every_bad_row_is_set_aside_once_and_order_is_kept(bad: tuple[int, ...]) -> None:
    table = Table(*bad)
    await table.take(range(7))
    assert [item for item, _ in table.aside] == list(bad)
    assert table.written == [n for n in range(7) if n not in bad]


async def test_a_deadlock_repeats_the_whole_batch() -> None:
    table = Table(failures=2)
    await table.take(range(5))
    assert (table.runs, table.written) == ([5, 5, 5], list(range(5)))


async def test_a_batch_that_deadlocks_again_and_again_is_left_unsettled() -> None:
    table = Table(failures=100)
    with pytest.raises(asyncpg.DeadlockDetectedError):
        await table.take(range(5))
    assert table.runs == [5] * MOST_REPEATS
    assert table.aside == []


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError,
        asyncpg.ConnectionDoesNotExistError,
        asyncpg.QueryCanceledError,
        asyncpg.TooManyConnectionsError,
    ],
)
async def test_an_outage_makes_no_row_bad(error: type[Exception]) -> None:
    table = Table(3, error=error)
    with pytest.raises(error):
        await table.take(range(5))
    assert (table.runs, table.aside) == ([5], [])


@pytest.mark.parametrize(
    "error", [asyncpg.CheckViolationError, asyncpg.UniqueViolationError, asyncpg.DataError]
)
async def test_what_postgres_refuses_in_a_row_is_the_rows_fault(error: type[Exception]) -> None:
    table = Table(3, error=error)
    await table.take(range(5))
    assert [item for item, _ in table.aside] == [3]
