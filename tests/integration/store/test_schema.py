"""The schema is the committed one, and refuses rows and arrows that cannot be."""

from __future__ import annotations

import os
from itertools import product
from typing import get_args

import asyncpg
import pytest

from tests.integration.store.catalog import SNAPSHOT, render
from tests.integration.store.rows import lock, make_orders
from triumvir.lifecycle import ARROWS, END, State
from triumvir.store.faults import Fault, fault

STATES = get_args(State)
LOCKED = {"processing"}


async def test_the_schema_is_the_committed_snapshot(connection: asyncpg.Connection) -> None:
    rendered = await render(connection)
    if os.environ.get("TRIUMVIR_TEST_REWRITE"):
        SNAPSHOT.write_text(rendered)
    assert rendered == SNAPSHOT.read_text(), "meant so? TRIUMVIR_TEST_REWRITE=1 writes the snapshot anew"


async def test_exactly_the_arrows_of_the_lifecycle_can_be_written(connection: asyncpg.Connection) -> None:
    (no,) = await make_orders(connection, ["one"])
    for before, after in product(STATES, STATES):
        await _place(connection, no, before)
        written = await _can_move(connection, no, after)
        assert written == (before == after or after in ARROWS[before]), f"{before} -> {after}"


async def _place(connection: asyncpg.Connection, no: int, state: State) -> None:
    """Wherever it is: the arrows are what is tested, so they are switched off for this."""
    await connection.execute("alter table orders disable trigger orders_arrows")
    await _move(connection, no, state)
    await connection.execute("alter table orders enable trigger orders_arrows")


async def _can_move(connection: asyncpg.Connection, no: int, after: State) -> bool:
    try:
        await _move(connection, no, after)
    except asyncpg.CheckViolationError as error:
        return "may not go from" not in str(error)
    return True


async def _move(connection: asyncpg.Connection, no: int, state: State) -> None:
    """To a row that every other constraint allows in this state."""
    await connection.execute(
        "update orders set state = $2, ended_at = case when $3 then clock_timestamp() end,"
        " locked_by = case when $4 then gen_random_uuid() end,"
        " complete_by = case when $4 then clock_timestamp() end where no = $1",
        no,
        state,
        state in END,
        state in LOCKED,
    )


@pytest.mark.parametrize(
    ("constraint", "change"),
    [
        ("lock_and_deadline_together", "state = 'compensating', locked_by = gen_random_uuid()"),
        ("lock_and_deadline_together", "complete_by = now()"),
        ("processing_is_locked", "state = 'processing'"),
        ("only_running_is_locked", "locked_by = gen_random_uuid(), complete_by = now()"),
        ("end_has_a_time", "state = 'cancelled'"),
        ("end_has_a_time", "ended_at = now()"),
        ("orders_state_check", "state = 'paused'"),
    ],
)
async def test_an_order_that_cannot_be_is_refused(
    connection: asyncpg.Connection, constraint: str, change: str
) -> None:
    (no,) = await make_orders(connection, ["one"])
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("alter table orders disable trigger orders_arrows")
    with pytest.raises(asyncpg.CheckViolationError) as caught:
        await connection.execute(f"update orders set {change} where no = $1", no)
    await transaction.rollback()
    assert caught.value.constraint_name == constraint


async def test_a_locked_order_is_not_held(connection: asyncpg.Connection) -> None:
    (no,) = await make_orders(connection, ["one"])
    await lock(connection, no)
    with pytest.raises(asyncpg.CheckViolationError) as caught:
        await connection.execute("update orders set held_by = 'agent:a' where no = $1", no)
    assert caught.value.constraint_name == "locked_is_not_held"


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        ("steps_state_check", "1, 1, 1, 'asleep', 'none', null, null"),
        ("steps_effect_check", "1, 1, 1, 'running', 'maybe', null, null"),
        ("completed_is_certain", "1, 1, 1, 'completed', 'certain', null, null"),
        ("completed_is_certain", "1, 1, 1, 'completed', 'unknown', '1', null"),
        ("undo_has_something_to_undo", "1, 1, 1, 'failed', 'none', null, 'undoing'"),
    ],
)
async def test_a_step_that_cannot_be_is_refused(
    connection: asyncpg.Connection, constraint: str, values: str
) -> None:
    with pytest.raises(asyncpg.CheckViolationError) as caught:
        await connection.execute(
            f"insert into steps (no, step_no, attempt, state, effect, result, undo_state) values ({values})"
        )
    assert caught.value.constraint_name == constraint


async def test_a_told_history_row_has_a_number_and_no_other_has(connection: asyncpg.Connection) -> None:
    for status, sequence in (("received", None), (None, 1)):
        with pytest.raises(asyncpg.CheckViolationError) as caught:
            await connection.execute(
                "insert into transitions (no, n, at, who, from_state, to_state, why, status, sequence)"
                " values (1, 1, now(), 'x', 'pending', 'pending', 'x', $1, $2)",
                status,
                sequence,
            )
        assert caught.value.constraint_name == "told_has_a_number"


async def test_what_postgres_cannot_store_is_a_data_error_and_not_an_outage(
    connection: asyncpg.Connection,
) -> None:
    for statement, value in (
        ("select $1::text", "a\x00b"),
        ("select $1::text", "\ud800"),
        ("select $1::int", 2**40),
    ):
        with pytest.raises(asyncpg.DataError) as caught:
            await connection.fetchval(statement, value)
        assert fault(caught.value) is Fault.DATA
