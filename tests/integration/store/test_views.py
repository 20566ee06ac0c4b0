"""What schedulers keep in memory of the store: agents' windows, definitions, payloads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from tests.integration.store.rows import live_instance, lock, make_orders
from triumvir.errors import StoreError
from triumvir.lifecycle import OrderRecord
from triumvir.runtime.definitions import Definitions
from triumvir.runtime.payloads import Payloads
from triumvir.settings import Settings
from triumvir.store.operators import apply_workflow
from triumvir.store.session import Session
from triumvir.workflow import Step, Workflow
from triumvir_scheduler.windows import Windows

TRIO = Workflow(
    "trio", 1, [Step("a", agent="lab", operation="a", undo="un-a"), Step("b", agent="far", operation="b")]
)
LAB = ("lab/a", "lab/un-a")


@pytest.fixture
async def windows(settings: Settings, connection: asyncpg.Connection) -> AsyncIterator[Windows]:
    await apply_workflow(connection, TRIO)
    session = Session(settings, "windows")
    yield Windows(session, Definitions(), 100)
    await session.close()


async def _look(windows: Windows) -> None:
    windows.look_again()
    await windows.refresh()


async def test_an_agent_without_a_lease_is_absent_and_an_operation_nobody_offers_is_unknown(
    windows: Windows, connection: asyncpg.Connection
) -> None:
    await live_instance(connection, operations=LAB)
    await live_instance(connection, operations=("far/b",), seconds=-1)
    await _look(windows)
    reservation = windows.reserve()
    assert reservation.reason_to_hold("lab", "a") is None
    assert reservation.reason_to_hold("lab", "z") == "operation:lab/z"
    assert reservation.reason_to_hold("far", "b") == "agent:far"


async def test_a_window_is_twice_the_live_slots_less_what_is_under_way(
    windows: Windows, connection: asyncpg.Connection
) -> None:
    for slots in (2, 1):
        await live_instance(connection, operations=LAB, slots=slots)
    running, overdue = await make_orders(connection, ["running", "overdue"])
    await lock(connection, running)
    await lock(connection, overdue, seconds=-5)
    await _look(windows)
    assert windows.room("lab") == 5, "an order past its deadline takes no room"
    reservation = windows.reserve()
    reasons = [reservation.reason_to_hold("lab", "a") for _ in range(6)]
    assert reasons == [None] * 5 + ["window:lab"]
    assert windows.reserve().reason_to_hold("lab", "a") is None, (
        "a batch that did not commit reserved nothing"
    )


async def test_an_order_between_two_steps_may_exceed_the_window(
    windows: Windows, connection: asyncpg.Connection
) -> None:
    await live_instance(connection, operations=LAB, slots=1)
    await _look(windows)
    reservation = windows.reserve()
    assert [reservation.reason_to_continue("lab", "a") for _ in range(5)] == [None] * 4 + ["window:lab"]


async def test_held_windows_are_lifted_as_far_as_there_is_room(
    windows: Windows, connection: asyncpg.Connection
) -> None:
    await live_instance(connection, operations=LAB, slots=3)
    nos = await make_orders(connection, ["one", "two"])
    await connection.execute("update orders set held_by = 'window:lab' where no = $1", nos[0])
    await connection.execute("update orders set held_by = 'window:far' where no = $1", nos[1])
    await _look(windows)
    assert windows.releasable() == {"window:lab": 6}


async def test_orders_of_absent_agents_are_claimed_to_be_held(
    windows: Windows, connection: asyncpg.Connection
) -> None:
    await _look(windows)
    assert windows.claim_room() == 100
    await live_instance(connection, operations=LAB, slots=4)
    await _look(windows)
    assert windows.claim_room() == 8


async def test_a_first_step_that_may_be_skipped_makes_room_for_the_next(
    windows: Windows, connection: asyncpg.Connection
) -> None:
    maybe = Step("a", agent="lab", operation="a", when="payload.go")
    await connection.execute("delete from workflows")
    await apply_workflow(connection, Workflow("perhaps", 1, [maybe, *TRIO.steps[1:]]))
    await live_instance(connection, operations=LAB, slots=1)
    await live_instance(connection, operations=("far/b",), slots=3)
    await _look(windows)
    assert windows.claim_room() == 6


async def test_a_definition_that_is_missing_or_odd_is_unknown_and_the_others_are_read(
    connection: asyncpg.Connection,
) -> None:
    await apply_workflow(connection, TRIO)
    await connection.execute(
        "insert into workflows (name, version, definition, digest) values ('odd', 1, '[]', $1)", bytes(32)
    )
    definitions = Definitions()
    for _ in range(2):
        await definitions.load(connection, [("trio", 1), ("odd", 1), ("never-applied", 3)])
    assert definitions.get("trio", 1) == TRIO
    assert definitions.find("odd", 1) is None
    assert definitions.step_name("trio", 1, 2) == "b"
    assert definitions.step_name("never-applied", 3, 2) is None
    with pytest.raises(StoreError, match="workflow odd version 1 has no definition that can be read"):
        definitions.get("odd", 1)


async def test_payloads_are_read_once_and_the_oldest_make_room(connection: asyncpg.Connection) -> None:
    records = []
    for order_id in ("a", "b", "c"):
        await connection.execute(
            "insert into order_documents (client, order_id, payload, digest) values ('shop-a', $1, $2, $3)",
            order_id,
            f'{{"is":"{order_id}"}}',
            bytes(32),
        )
        records.append(OrderRecord(ord(order_id), "shop-a", order_id, "trio", 1))
    payloads = Payloads(limit=25)
    for record in records:
        assert await payloads.of(connection, [record]) == {record.no: f'{{"is":"{record.order_id}"}}'}
    await connection.execute("update order_documents set payload = 'changed'")
    assert await payloads.of(connection, records) == {
        records[0].no: "changed",
        records[1].no: '{"is":"b"}',
        records[2].no: '{"is":"c"}',
    }


async def test_an_order_without_a_document_is_left_out(connection: asyncpg.Connection) -> None:
    lost = OrderRecord(1, "shop-a", str(uuid4()), "trio", 1)
    assert await Payloads().of(connection, [lost]) == {}
