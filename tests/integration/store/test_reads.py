"""What operators read, against rows put there by hand; and what they write."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import uuid4

import asyncpg
import pytest

from triumvir.errors import ConfigurationError, DefinitionError, StoreError
from triumvir.settings import Settings
from triumvir.store.operators import apply_workflow, ask_cancel, connect
from triumvir.store.reads import Reads
from triumvir.store.statements import Connection
from triumvir.workflow import Step, Workflow

FULFILMENT = Workflow(
    "order-fulfilment",
    version=1,
    steps=[
        Step("reserve", agent="inventory", operation="reserve-stock", undo="release-stock"),
        Step("charge", agent="payments", operation="charge-card"),
    ],
)


@pytest.fixture
def settings(database_url: str) -> Settings:
    return Settings(database_url=database_url)


@pytest.fixture
async def connection(settings: Settings) -> AsyncIterator[Connection]:
    async with connect(settings) as connection:
        yield connection


async def insert_order(connection: Connection, client: str, order_id: str, **columns: object) -> int:
    values: dict[str, object] = {
        "client": client, "order_id": order_id, "workflow": "order-fulfilment", "version": 1,
        "digest": b"x" * 32, "rank": 1, "status_queue": f"status.{client}", **columns,
    }  # fmt: skip
    places = ", ".join(f"${place}" for place in range(1, len(values) + 1))
    no: int = await connection.fetchval(
        f"insert into orders ({', '.join(values)}) values ({places}) returning no", *values.values()
    )
    return no


async def test_the_newest_orders_come_first_and_filters_add_up(connection: Connection) -> None:
    await insert_order(connection, "shop-a", "1")
    await insert_order(connection, "shop-a", "2", state="error")
    await insert_order(connection, "shop-b", "3", state="error", workflow="other")
    reads = Reads(connection)
    assert [order.order_id for order in await reads.orders()] == ["3", "2", "1"]
    assert [order.order_id for order in await reads.orders(state="error")] == ["3", "2"]
    assert [order.order_id for order in await reads.orders(state="error", client="shop-a")] == ["2"]
    assert [order.order_id for order in await reads.orders(workflow="other")] == ["3"]
    assert [order.order_id for order in await reads.orders(limit=1)] == ["3"]


async def test_an_order_is_shown_with_steps_calls_history_and_commands(connection: Connection) -> None:
    await apply_workflow(connection, FULFILMENT)
    no = await insert_order(connection, "shop-a", "a/b", attempt=2)
    await connection.execute(
        "insert into steps (no, step_no, attempt, state, calls, effect, error)"
        " values ($1, 1, 2, 'failed', 1, 'unknown', 'no answer')",
        no,
    )
    await connection.execute(
        "insert into inbox (no, step_no, direction, fence, state, calls) values ($1, 1, 'do', 7, 'running', 3)",
        no,
    )
    await connection.execute(
        "insert into transitions (no, n, at, who, from_state, to_state, why, status, sequence)"
        " values ($1, 1, clock_timestamp(), 'submitter', 'pending', 'pending', 'received', 'received', 1)",
        no,
    )
    message_id = await ask_cancel(connection, "shop-a", "a/b", "operator:alice", "customer called")
    found = await Reads(connection).order("shop-a", "a/b")
    assert found is not None
    assert found.order.definition == FULFILMENT.to_json()
    assert [(step.step_no, step.state, step.calls, step.effect) for step in found.steps] == [
        (1, "failed", 3, "unknown")
    ]
    assert [(row.why, row.status, row.sequence) for row in found.history] == [("received", "received", 1)]
    (command,) = found.commands
    assert (command.kind, command.message_id) == ("cancel", message_id)
    assert command.data == '{"reason": "customer called", "by": "operator:alice"}'
    assert abs((datetime.now(UTC) - found.order.now).total_seconds()) < 3600


async def test_an_order_that_is_not_there_is_none(connection: Connection) -> None:
    assert await Reads(connection).order("shop-a", "1") is None


async def test_a_dead_letter_is_found_by_how_its_id_begins(connection: Connection) -> None:
    ids = sorted([uuid4(), uuid4()])
    for number, letter in enumerate(ids):
        await connection.execute(
            "insert into dead_letters (id, queue, reason, detail, client, headers, body)"
            " values ($1, 'orders', 'invalid', 'body: not JSON', $2, '{}', $3)",
            letter,
            f"shop-{number}",
            b"\xff\x00",
        )
    reads = Reads(connection)
    found = await reads.dead_letter(str(ids[0]))
    assert found is not None
    assert found.body == b"\xff\x00"
    assert await reads.dead_letter("zz") is None
    assert await reads.dead_letter("%") is None
    assert [letter.client for letter in await reads.dead_letters(client="shop-1")] == ["shop-1"]
    assert {letter.bytes for letter in await reads.dead_letters(queue="orders")} == {2}


async def test_an_ambiguous_beginning_is_said(connection: Connection) -> None:
    for end in "12":
        await connection.execute(
            "insert into dead_letters (id, queue, reason, detail, headers, body)"
            " values ($1, 'orders', 'invalid', 'x', '{}', '')",
            f"00000000-0000-0000-0000-00000000000{end}",
        )
    with pytest.raises(ConfigurationError, match="more than one"):
        await Reads(connection).dead_letter("0000")


async def test_a_changed_definition_under_its_version_is_refused(connection: Connection) -> None:
    assert await apply_workflow(connection, FULFILMENT) == "applied"
    assert await apply_workflow(connection, FULFILMENT) == "unchanged"
    changed = Workflow("order-fulfilment", version=1, steps=FULFILMENT.steps[:1])
    with pytest.raises(DefinitionError, match=r"step 'charge' is gone.*version=2"):
        await apply_workflow(connection, changed)
    assert [row.definition for row in await Reads(connection).workflows()] == [FULFILMENT.to_json()]


async def test_a_schema_that_is_behind_names_the_command(empty_database_url: str) -> None:
    with pytest.raises(StoreError, match="triumvir migrate"):
        async with connect(Settings(database_url=empty_database_url)):
            pass


async def test_a_fault_of_postgres_is_a_store_error(settings: Settings) -> None:
    with pytest.raises(StoreError, match="Postgres"):
        async with connect(settings) as connection:
            await connection.execute("select 1/0")
    with pytest.raises(StoreError, match="cannot be reached"):
        async with connect(Settings(database_url="postgresql://x:y@127.0.0.1:1/z")):
            pass


async def test_what_operators_read_blocks_nobody(connection: Connection, database_url: str) -> None:
    no = await insert_order(connection, "shop-a", "1")
    other = await asyncpg.connect(database_url, server_settings={"search_path": "triumvir"})
    async with other.transaction():
        await other.execute("update orders set rank = 2 where no = $1", no)
        assert await Reads(connection).order("shop-a", "1") is not None
        assert len(await Reads(connection).orders()) == 1
    await other.close()
