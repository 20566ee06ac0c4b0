"""Deliveries that come back: handled alone, marked while they are, put into quarantine when they end processes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

import asyncpg
import pytest

from tests.servers import SCHEMA
from triumvir.broker import (
    ALERTS,
    INTERNAL_EXCHANGE,
    Connection,
    Consumer,
    Delivery,
    OutMessage,
    Publisher,
    connect,
    core_topology,
    declare,
)
from triumvir.runtime.intake import Intake
from triumvir.runtime.outgoing import DeadLetter
from triumvir.settings import Settings
from triumvir.store.session import Session


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


class Life:
    """One life of a process that takes from the queue ``alerts``."""

    def __init__(self, settings: Settings, broker: Connection, fails: Callable[[Delivery], bool]) -> None:
        self.handled: list[list[str | None]] = []
        self.quarantined: list[DeadLetter] = []
        self._fails = fails
        self._session = Session(settings, "marks")
        self._consumer = Consumer(broker, ALERTS, 50)
        self._intake = Intake(self._consumer, self._handle, self._quarantine, self._session, 50)

    async def __aenter__(self) -> Life:
        await self._consumer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """As a process that dies: what is not settled goes back."""
        await self._consumer.close()
        await self._session.close()

    async def step(self) -> None:
        await self._intake.step()

    async def _handle(self, deliveries: Sequence[Delivery]) -> None:
        self.handled.append([delivery.message_id for delivery in deliveries])
        if any(map(self._fails, deliveries)):
            raise ConnectionResetError("the database is away")

    async def _quarantine(self, letter: DeadLetter) -> None:
        self.quarantined.append(letter)


async def _publish(broker: Connection, *ids: str) -> None:
    publisher = Publisher(broker)
    await publisher.publish(
        [OutMessage(INTERNAL_EXCHANGE, ALERTS, id_, "alert.v1", "", b"{}") for id_ in ids]
    )
    await publisher.close()


async def _marks(db: asyncpg.Connection) -> list[int]:
    return [row["marks"] for row in await db.fetch("select marks from deliveries")]


async def test_an_outage_makes_no_message_poison(
    settings: Settings, broker: Connection, db: asyncpg.Connection
) -> None:
    await _publish(broker, "good")
    async with Life(settings, broker, lambda _: True) as first:
        with pytest.raises(ConnectionResetError):
            await first.step()
    failures = iter([True] * 5 + [False])
    async with Life(settings, broker, lambda _: next(failures)) as second:
        for _ in range(5):
            with pytest.raises(ConnectionResetError):
                await second.step()
            assert await _marks(db) == [1]
        await second.step()
        assert second.handled == [["good"]] * 6
        assert second.quarantined == []
    assert await _marks(db) == []


async def test_f12_a_message_that_ends_three_processes_is_put_into_quarantine_and_its_neighbours_go_on(
    settings: Settings, broker: Connection, db: asyncpg.Connection
) -> None:
    await _publish(broker, "before", "poison", "after")
    lives = [await _live(settings, broker) for _ in range(4)]
    (letter,) = [letter for life in lives for letter in life.quarantined]
    assert (letter.message_id, letter.detail) == ("poison", "came back 3 times without being settled")
    alone = [group[0] for life in lives for group in life.handled if len(group) == 1]
    assert alone.count("poison") == 2, "twice alone, after the batch it came in"
    assert {"before", "after"} <= set(alone)
    assert await _marks(db) == []


async def _live(settings: Settings, broker: Connection) -> Life:
    """A life that ends when it meets the poison, or when it has done what was there."""
    async with Life(settings, broker, lambda delivery: delivery.message_id == "poison") as life:
        with contextlib.suppress(ConnectionResetError):
            await life.step()
    return life


async def test_what_is_new_is_handled_together(settings: Settings, broker: Connection) -> None:
    await _publish(broker, *(f"m{n}" for n in range(20)))
    async with Life(settings, broker, lambda _: False) as life:
        while sum(map(len, life.handled)) < 20:
            await life.step()
        assert len(life.handled) < 20
