"""The outbox relay on real servers: a row goes once all it stands for is confirmed, and not before."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest
import structlog

from tests.servers import SCHEMA
from tests.waiting import eventually
from triumvir.broker import (
    ALERTS,
    INTERNAL_EXCHANGE,
    Connection,
    OutMessage,
    Publisher,
    connect,
    core_topology,
    declare,
)
from triumvir.contracts.messages import Status
from triumvir.runtime.relay import Relay
from triumvir.settings import Settings
from triumvir.store.session import Session
from triumvir.telemetry import events


@pytest.fixture
async def broker(settings: Settings) -> AsyncIterator[Connection]:
    connection = await connect(settings.broker_url, "test")
    await declare(connection, core_topology(quorum=False))
    yield connection
    await connection.close()


@pytest.fixture
async def db(settings: Settings) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(settings.database_url, server_settings={"search_path": SCHEMA})
    yield connection
    await connection.close()


@pytest.fixture
async def session(settings: Settings) -> AsyncIterator[Session]:
    session = Session(settings, "work")
    yield session
    await session.close()


@pytest.fixture
async def relay(settings: Settings, broker: Connection) -> AsyncIterator[Relay]:
    flushing, publisher = Session(settings, "flush"), Publisher(broker, timeout=2)
    relay = Relay(publisher, flushing)
    yield relay
    await relay.drain()
    await publisher.close()
    await flushing.close()


def _message(queue: str, number: int = 1, type_: str = "alert.v1") -> OutMessage:
    return OutMessage(INTERNAL_EXCHANGE, queue, f"test/{number}", type_, "", b"{}")


async def _row(db: asyncpg.Connection) -> int:
    row: int = await db.fetchval(
        "insert into outbox (lease, refs) values (now() + interval '1 h', '[]') returning id"
    )
    return row


async def _rows(db: asyncpg.Connection) -> list[int]:
    return [row["id"] for row in await db.fetch("select id from outbox order by id")]


async def _are(db: asyncpg.Connection, expected: list[int]) -> bool:
    return await _rows(db) == expected


async def test_a_row_is_deleted_soon_after_all_its_messages_are_confirmed(
    relay: Relay, db: asyncpg.Connection
) -> None:
    row = await _row(db)
    await relay.send([_message(ALERTS, number) for number in range(3)], row)
    await eventually(lambda: _are(db, []), what="the deletion of the row")


async def test_a_row_stays_when_one_of_its_messages_found_no_queue(
    relay: Relay, db: asyncpg.Connection
) -> None:
    row = await _row(db)
    await relay.send([_message(ALERTS, 1), _message("agent.nowhere", 2)], row)
    await relay.drain()
    assert await _rows(db) == [row]


async def test_a_status_whose_queue_is_gone_is_not_waited_for(relay: Relay, db: asyncpg.Connection) -> None:
    row = await _row(db)
    await relay.send([_message("status.gone", 1, Status.TYPE)], row)
    await relay.drain()
    assert await _rows(db) == []


async def test_a_message_that_can_never_be_sent_keeps_its_row_and_no_other(
    relay: Relay, db: asyncpg.Connection
) -> None:
    odd, good = await _row(db), await _row(db)
    await relay.send([OutMessage(INTERNAL_EXCHANGE, ALERTS, "x" * 256, "alert.v1", "", b"{}")], odd)
    await relay.send([_message(ALERTS)], good)
    await relay.drain()
    assert await _rows(db) == [odd]


async def test_a_swept_row_that_asks_for_nothing_any_more_is_deleted(
    relay: Relay, db: asyncpg.Connection
) -> None:
    await relay.send_or_delete([], await _row(db))
    await relay.drain()
    assert await _rows(db) == []


async def test_a_deletion_rides_in_the_next_commit(
    relay: Relay, session: Session, db: asyncpg.Connection
) -> None:
    row = await _row(db)
    await relay.send_or_delete([], row)
    async with relay.transaction(session) as ride:
        assert await ride.connection.fetchval("select count(*) from outbox") == 1
    assert await _rows(db) == []


async def test_a_deletion_that_failed_is_made_again_without_other_work(
    relay: Relay, db: asyncpg.Connection
) -> None:
    row = await _row(db)
    await db.execute("alter table outbox rename to outbox_away")
    with structlog.testing.capture_logs() as logs:
        await relay.send([_message(ALERTS)], row)
        await eventually(
            lambda: [log for log in logs if log["event"] == events.OUTBOX_KEPT], what="a failure"
        )
    await db.execute("alter table outbox_away rename to outbox")
    await eventually(lambda: _are(db, []), what="the deletion of the row")


async def test_a_deletion_whose_commit_failed_is_made_later(
    relay: Relay, session: Session, db: asyncpg.Connection
) -> None:
    row = await _row(db)
    await relay.send_or_delete([], row)

    async def fail() -> None:
        async with relay.transaction(session) as ride:
            assert list(ride.take()) == [row]
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await _rows(db) == [row]
    await eventually(lambda: _are(db, []), what="the deletion of the row")
