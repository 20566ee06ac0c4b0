"""A scheduler's stage decides on orders that it remembers; whoever else moved one is noticed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import uuid4

import pytest

from tests.waiting import eventually
from triumvir.broker import Publisher, connect, core_topology, declare
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import StepSucceeded
from triumvir.lifecycle import Claimed, Event, Expired, OrderRecord, Replied
from triumvir.runtime.decisions import Decider
from triumvir.runtime.definitions import Definitions
from triumvir.runtime.recent import Recent
from triumvir.runtime.relay import Relay
from triumvir.settings import Settings
from triumvir.store import orders
from triumvir.store.faults import DATABASE_ERRORS
from triumvir.store.operators import apply_workflow
from triumvir.store.session import Session, Store
from triumvir.workflow import Step, Workflow
from triumvir_scheduler.stage import Shared, Stage
from triumvir_scheduler.windows import Windows

WORKFLOW = Workflow("duo", 1, [Step(name, agent="lab", operation=name, undo=f"un-{name}") for name in "ab"])


class Clock:
    """The process' own, which may be made to stand still."""

    def __init__(self) -> None:
        self._stood: float | None = None

    def __call__(self) -> float:
        return time.monotonic() if self._stood is None else self._stood

    def stands_still(self) -> None:
        self._stood = time.monotonic()


class Room:
    """A stage of one scheduler, and what another process does beside it."""

    def __init__(self, settings: Settings, stage: Stage, store: Store, recent: Recent, clock: Clock) -> None:
        self.stage, self.store, self.recent, self.clock = stage, store, recent, clock
        self.statements: list[str] = []
        self.theirs = Decider("scheduler", uuid4(), settings, Definitions())
        self.session = store.session("them")

    async def elsewhere(self, no: int, event: Event) -> None:
        async with self.session.transaction() as connection:
            await orders.lock(connection, [no])
            await self.theirs.apply(connection, {no: [event]})

    async def record(self, no: int) -> OrderRecord:
        async with self.session.connection() as connection:
            found = await orders.read(connection, [no])
        assert found is not None
        return found.records[no]

    async def under_lock(self, no: int, event: Event) -> None:
        async with self.stage.work("reply") as work:
            locked = await orders.lock(work.connection, [no])
            await self.stage.apply(work, {no: [event]}, continuing=True, locked=locked)

    async def reads(self) -> int:
        """How often orders were read by the stage since the last call."""
        count = sum("from orders o left join steps" in text for text in self.statements)
        self.statements.clear()
        return count


@pytest.fixture
async def room(settings: Settings) -> AsyncIterator[Room]:
    broker = await connect(settings.broker_url, "test of memory")
    await declare(broker, core_topology(quorum=False))
    publisher = Publisher(broker)
    async with Store(settings, "scheduler") as store:
        clock = Clock()
        definitions, recent = Definitions(), Recent(store.connects, clock)
        relay = Relay(publisher, store.session("outbox"))
        decider = Decider("scheduler", uuid4(), settings, definitions, recent=recent)
        windows = Windows(store.session("windows"), definitions, 100)
        stage = Stage("replies", Shared(store, relay, decider, windows))
        async with store.probe.connection() as connection:
            await apply_workflow(connection, WORKFLOW)
            await connection.execute(
                "insert into instances (id, service, host, pid, release, operations, slots, lease_until)"
                " values ($1, 'agent', 'h', 1, '1', '{lab/a,lab/b}', 10, clock_timestamp() + interval '1 hour')",
                uuid4(),
            )
        await windows.refresh(needed=True)
        room = Room(settings, stage, store, recent, clock)
        async with stage.look() as connection:
            connection.add_query_logger(lambda record: room.statements.append(record.query))
        yield room
        await relay.drain()
    await publisher.close()
    await broker.close()


async def made(room: Room, order_id: str = "o") -> int:
    async with room.session.connection() as connection:
        await connection.execute(
            "insert into order_documents (client, order_id, payload, digest) values ('s', $1, '{}', sha256('x'))",
            order_id,
        )
        no: int = await connection.fetchval(
            "insert into orders (client, order_id, workflow, version, digest, rank, status_queue, sequence, history)"
            " values ('s', $1, 'duo', 1, sha256('x'), 0, 'status.s', 1, 1) returning no",
            order_id,
        )
    return no


def success(record: OrderRecord) -> Replied:
    """The answer to the request that the order waits for."""
    assert record.step is not None
    return Replied(
        StepSucceeded(
            order_no=record.no,
            client=record.client,
            order_id=record.order_id,
            step="ab"[record.step - 1],
            step_no=record.step,
            direction="do",
            lock=record.locked_by,
            fence=record.fence,
            calls=1,
            result=JsonText.of({"done": record.step}),
        )
    )


async def claimed(room: Room) -> tuple[int, OrderRecord]:
    no = await made(room)
    assert await room.stage.at_once("claim", {no: Claimed()})
    assert await room.reads() == 1
    return no, await room.record(no)


async def test_what_is_remembered_is_what_stands_there(room: Room) -> None:
    no, record = await claimed(room)
    assert room.recent.all_of([no]) == {no: record}
    assert await room.stage.at_once("reply", {no: success(record)}, continuing=True)
    record = await room.record(no)
    assert (record.step, room.recent.all_of([no])) == (2, {no: record})


async def test_a_remembered_order_is_not_read_again_to_its_end(room: Room) -> None:
    no, record = await claimed(room)
    assert await room.stage.at_once("reply", {no: success(record)}, continuing=True)
    assert await room.stage.at_once("reply", {no: success(await room.record(no))}, continuing=True)
    assert await room.reads() == 0
    done = await room.record(no)
    assert (done.state, done.attempt) == ("processed", 1)
    assert room.recent.all_of([no]) is None, "nobody will answer any more"


async def test_under_its_lock_too_it_is_not_read_again(room: Room) -> None:
    no, record = await claimed(room)
    await room.under_lock(no, success(record))
    assert await room.reads() == 0
    assert (await room.record(no)).step == 2


async def next_attempt(room: Room, no: int) -> OrderRecord:
    """Its request ran out of time, and another scheduler took the order on."""
    async with room.session.connection() as connection:
        await connection.execute(
            "update orders set complete_by = clock_timestamp() - interval '1 s' where no = $1", no
        )
    await room.elsewhere(no, Expired(begun=False))
    async with room.session.connection() as connection:
        await connection.execute("update orders set not_before = null where no = $1", no)
    await room.elsewhere(no, Claimed())
    record = await room.record(no)
    assert record.attempt == 2
    return record


async def test_an_order_that_somebody_else_moved_is_not_decided_on_from_memory(room: Room) -> None:
    no, _ = await claimed(room)
    moved = await next_attempt(room, no)
    assert not await room.stage.at_once("reply", {no: success(moved)}, continuing=True)
    await room.under_lock(no, success(moved))
    after = await room.record(no)
    assert (after.step, after.attempt) == (2, 2)
    assert after.history > moved.history


async def test_under_its_lock_a_moved_order_is_read(room: Room) -> None:
    no, _ = await claimed(room)
    moved = await next_attempt(room, no)
    await room.under_lock(no, success(moved))
    assert await room.reads() == 1
    assert (await room.record(no)).step == 2


async def test_an_answer_that_seems_to_change_nothing_is_looked_at_under_the_lock(room: Room) -> None:
    """By memory it may look old while the order has come back to where it counts: then no write would tell."""
    no, record = await claimed(room)
    first = success(record)
    assert await room.stage.at_once("reply", {no: first}, continuing=True)
    history = (await room.record(no)).history
    assert not await room.stage.at_once("reply", {no: first}, continuing=True)
    await room.under_lock(no, first)
    assert (await room.record(no)).history == history


async def is_renewed(room: Room, connects: int) -> bool:
    """Whether the stage has opened another connection, as it does at its next look."""
    try:
        async with room.stage.look() as connection:
            await connection.execute("select 1")
    except DATABASE_ERRORS:
        return False
    return room.store.connects() > connects


async def test_after_a_lost_connection_orders_are_read_again(room: Room, settings: Settings) -> None:
    no, record = await claimed(room)
    connects = room.store.connects()
    killer = Session(settings, "killer")
    async with killer.connection() as connection:
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'triumvir scheduler replies' and datname = current_database()"
        )
    await killer.close()
    await eventually(lambda: is_renewed(room, connects), what="a connection that is known to be lost")
    async with room.stage.look():
        assert room.recent.all_of([no]) is None
    assert await room.stage.at_once("reply", {no: success(record)}, continuing=True)
    assert (await room.record(no)).step == 2


async def test_times_of_a_history_never_go_back(room: Room) -> None:
    """The remembered clock lags by as long as the answer travelled that told it; a later answer puts it right."""
    room.clock.stands_still()
    no, record = await claimed(room)
    await room.under_lock(no, success(record))
    assert await room.stage.at_once("reply", {no: success(await room.record(no))}, continuing=True)
    assert await room.reads() == 0, "decided by memory"
    async with room.session.connection() as connection:
        rows = await connection.fetch("select at from transitions where no = $1 order by n", no)
    times = [row["at"] for row in rows]
    assert len(times) > 3
    assert times == sorted(times)


async def test_times_come_from_the_database_whatever_is_remembered(room: Room) -> None:
    no, record = await claimed(room)
    assert await room.stage.at_once("reply", {no: success(record)}, continuing=True)
    after = await room.record(no)
    async with room.session.connection() as connection:
        now = await connection.fetchval("select clock_timestamp()")
    assert record.sent_at is not None
    assert after.sent_at is not None
    assert record.sent_at <= after.sent_at <= now
    assert now - after.sent_at < timedelta(minutes=1)
