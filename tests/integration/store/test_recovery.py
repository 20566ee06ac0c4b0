"""What the supervisor reads and locks, what operators see, and the guard of every write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from msgspec.structs import replace

from tests.integration.store.rows import lock, make_orders
from triumvir.lifecycle import Broken, Claimed, Moment, OrderRecord, Policy, decide
from triumvir.store import orders
from triumvir.store.faults import Fault, fault
from triumvir.store.statements import Connection, statement
from triumvir.workflow import Step, Workflow

WORKFLOW = Workflow("trio", 1, [Step("a", agent="lab", operation="a")])
START = datetime(1970, 1, 1, tzinfo=UTC)


async def _read(connection: Connection, no: int) -> tuple[datetime, OrderRecord]:
    found = await orders.read(connection, [no])
    assert found is not None
    return found.now, found.records[no]


async def _expired(
    connection: Connection, *, grace: float = 0.0, most: int = 100, after: Any = (START, 0)
) -> Any:
    return await statement("expired_orders").rows(
        connection, grace_seconds=grace, after=after[0], after_no=after[1], most=most
    )


async def _lock_expired(connection: Connection, rows: Any) -> list[int]:
    locked = await statement("lock_expired").rows(
        connection,
        nos=[row["no"] for row in rows],
        states=[row["state"] for row in rows],
        locks=[row["locked_by"] for row in rows],
        deadlines=[row["complete_by"] for row in rows],
    )
    return [row["no"] for row in locked]


async def test_only_orders_past_deadline_and_grace_are_overdue(connection: asyncpg.Connection) -> None:
    late, recent, early = await make_orders(connection, list("abc"))
    await lock(connection, late, seconds=-1000)
    await lock(connection, recent, seconds=-1)
    await lock(connection, early, seconds=1000)
    assert [row["no"] for row in await _expired(connection, grace=500)] == [late]
    assert [row["no"] for row in await _expired(connection)] == [late, recent]


async def test_a_scan_pages_through_all_that_is_overdue(connection: asyncpg.Connection) -> None:
    nos = await make_orders(connection, [f"o{n}" for n in range(7)])
    for no in nos:
        await lock(connection, no, seconds=-no)
    seen, after = [], (START, 0)
    while page := await _expired(connection, most=3, after=after):
        seen += [row["no"] for row in page]
        after = page[-1]["complete_by"], page[-1]["no"]
    assert seen == sorted(nos, reverse=True)


@pytest.mark.parametrize(
    "change",
    [
        "complete_by = complete_by + interval '1 s'",
        "locked_by = gen_random_uuid()",
        "state = 'compensating'",
        "state = 'pending', locked_by = null, complete_by = null",
    ],
)
async def test_an_order_that_moved_since_it_was_read_is_left_alone(
    connection: asyncpg.Connection, change: str
) -> None:
    moved, still = await make_orders(connection, ["moved", "still"])
    for no in (moved, still):
        await lock(connection, no, seconds=-5)
    rows = await _expired(connection)
    await connection.execute(f"update orders set {change} where no = $1", moved)
    async with connection.transaction():
        assert await _lock_expired(connection, rows) == [still]


async def test_two_supervisors_never_lock_one_order(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    (no,) = await make_orders(connection, ["a"])
    await lock(connection, no, seconds=-5)
    rows = await _expired(connection)
    async with connection.transaction(), other.transaction():
        assert await _lock_expired(connection, rows) == [no]
        assert await _lock_expired(other, rows) == []


async def test_a_batch_of_unknown_end_is_found_landed_only_where_it_is_committed_and_still_waited_for(
    connection: asyncpg.Connection,
) -> None:
    nos = await make_orders(connection, ["landed", "rolled-back", "answered"])
    before = {no: (await _read(connection, no))[1] for no in nos}
    moment = Moment((await _read(connection, nos[0]))[0], uuid4())
    made = {no: decide(record, WORKFLOW, Claimed(), moment, Policy()) for no, record in before.items()}
    committed = {no: made[no] for no in (nos[0], nos[2])}
    await orders.write(connection, before, committed, orders.Riders(), who="test", instance=uuid4())
    await connection.execute("update orders set sent_at = sent_at + interval '1 s' where no = $1", nos[2])
    found = await statement("landed_moves").rows(
        connection,
        nos=nos,
        ns=[made[no].log[-1].n for no in nos],
        ats=[made[no].log[-1].at for no in nos],
        locks=[made[no].record.locked_by for no in nos],
        sent_at=[made[no].record.sent_at for no in nos],
        retries=[made[no].record.retries for no in nos],
    )
    assert [row["no"] for row in found] == [nos[0]]


async def test_nothing_of_a_batch_is_written_if_one_of_its_orders_moved(
    connection: asyncpg.Connection,
) -> None:
    nos = await make_orders(connection, ["a", "b"])
    before = {no: (await _read(connection, no))[1] for no in nos}
    moment = Moment((await _read(connection, nos[0]))[0], uuid4())
    decisions = {no: decide(record, WORKFLOW, Claimed(), moment, Policy()) for no, record in before.items()}
    await connection.execute("update orders set history = history + 1 where no = $1", nos[1])
    riders = orders.Riders(refs="[]", opened=1)
    with pytest.raises(
        asyncpg.SerializationError, match="1 of 2 orders are not as they were taken to be"
    ) as raised:
        await orders.write(connection, before, decisions, riders, who="test", instance=uuid4())
    assert fault(raised.value) is Fault.AGAIN
    assert [row["state"] for row in await connection.fetch("select state from orders")] == ["pending"] * 2
    for table in ("steps", "outbox", "admission"):
        assert await connection.fetchval(f"select count(*) from {table}") == 0
    assert await connection.fetchval("select count(*) from transitions where who = 'test'") == 0


async def test_a_decision_is_read_back_as_it_was_written(connection: asyncpg.Connection) -> None:
    (no,) = await make_orders(connection, ["a"])
    now, before = await _read(connection, no)
    decision = decide(before, WORKFLOW, Claimed(), Moment(now, uuid4()), Policy())
    instance = uuid4()
    await orders.write(
        connection, {no: before}, {no: decision}, orders.Riders(), who="test", instance=instance
    )
    assert (await _read(connection, no))[1] == decision.record
    row = await connection.fetchrow("select who, from_state, to_state, why from transitions")
    assert tuple(row or ()) == ("test", "pending", "processing", "run a")
    assert await connection.fetchval("select touched_by from orders") == instance


async def test_a_value_that_postgres_refuses_fails_its_own_order_and_writes_nothing(
    connection: asyncpg.Connection,
) -> None:
    (no,) = await make_orders(connection, ["a"])
    now, before = await _read(connection, no)
    decision = decide(before, WORKFLOW, Broken("a \x00 b"), Moment(now, uuid4()), Policy())
    with pytest.raises(asyncpg.DataError):
        async with connection.transaction():
            await orders.write(
                connection, {no: before}, {no: decision}, orders.Riders(), who="test", instance=uuid4()
            )
    assert (await _read(connection, no))[1] == before


async def test_what_rides_with_the_last_decision_is_written_in_its_commit(
    connection: asyncpg.Connection,
) -> None:
    (no,) = await make_orders(connection, ["a"])
    now, before = await _read(connection, no)
    earlier = await connection.fetchval("insert into outbox (lease, refs) values (now(), '[]') returning id")
    decision = decide(before, WORKFLOW, Claimed(), Moment(now, uuid4()), Policy())
    riders = orders.Riders(refs='["x"]', lease_seconds=5.0, opened=-1, confirmed=[earlier])
    outbox_id = await orders.write(
        connection, {no: before}, {no: decision}, riders, who="test", instance=uuid4()
    )
    rows = await connection.fetch("select id, refs from outbox")
    assert [tuple(row) for row in rows] == [(outbox_id, '["x"]')]
    assert await connection.fetchval("select sum(open) from admission") == -1


async def test_a_step_of_an_order_is_written_only_when_it_changed(connection: asyncpg.Connection) -> None:
    (no,) = await make_orders(connection, ["a"])
    now, before = await _read(connection, no)
    first = decide(before, WORKFLOW, Claimed(), Moment(now, uuid4()), Policy())
    await orders.write(connection, {no: before}, {no: first}, orders.Riders(), who="test", instance=uuid4())
    xmin = await connection.fetchval("select xmin::text from steps")
    locked = replace(first.record, complete_by=now + timedelta(seconds=1))
    second = replace(first, record=replace(locked, history=locked.history), log=first.log)
    moved = replace(second, log=tuple(replace(row, n=row.n + 1) for row in first.log))
    await orders.write(
        connection, {no: first.record}, {no: moved}, orders.Riders(), who="test", instance=UUID(int=1)
    )
    assert await connection.fetchval("select xmin::text from steps") == xmin
