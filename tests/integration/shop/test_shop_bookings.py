"""Bookings are rows, exactly once only if the transaction they are written in is."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import asyncpg
import pytest

from shop import bookings
from shop.models import Booking
from shop.processes import run
from shop.reconcile import differences

BOOKING = Booking(courier="Shire Carriers", price=Decimal("3.40"))
KEY = "shop/1/ship/do/0"
UNDO_KEY = "shop/1/ship/undo/0"


@pytest.fixture
async def connection(empty_database_url: str) -> AsyncIterator[Any]:
    opened = await asyncpg.connect(empty_database_url)
    await bookings.create_table(opened)
    yield opened
    await opened.close()


async def listed(connection: Any) -> list[tuple[str, str]]:
    return [(effect["direction"], effect["amount"]) for effect in await bookings.effects(connection)]


async def test_the_table_is_created_once_and_kept(connection: Any) -> None:
    await bookings.book(connection, "shop/1", KEY, 5, BOOKING)
    await bookings.create_table(connection)
    assert await listed(connection) == [("do", "3.40")]


async def test_the_module_run_as_a_program_creates_the_table(empty_database_url: str) -> None:
    await run([sys.executable, "-m", "shop.bookings"], env={"TRIUMVIR_DATABASE_URL": empty_database_url})
    opened = await asyncpg.connect(empty_database_url)
    assert await bookings.effects(opened) == []
    await opened.close()


async def test_a_booking_rolled_back_is_none(connection: Any) -> None:
    transaction = connection.transaction()
    await transaction.start()
    await bookings.book(connection, "shop/1", KEY, 5, BOOKING)
    await transaction.rollback()
    assert await listed(connection) == []


async def test_a_booking_is_cancelled_once_however_often_that_is_asked(connection: Any) -> None:
    await bookings.book(connection, "shop/1", KEY, 5, BOOKING)
    await bookings.cancel(connection, "shop/1", UNDO_KEY, 6)
    await bookings.cancel(connection, "shop/1", UNDO_KEY, 7)
    assert await listed(connection) == [("do", "3.40"), ("undo", "3.40")]


async def test_cancelling_what_was_never_booked_does_nothing(connection: Any) -> None:
    await bookings.cancel(connection, "shop/1", UNDO_KEY, 6)
    assert await listed(connection) == []


async def test_a_booking_written_twice_is_not_hidden_by_its_cancellation(connection: Any) -> None:
    for fence in (5, 6):
        await bookings.book(connection, "shop/1", KEY, fence, BOOKING)
    await bookings.cancel(connection, "shop/1", UNDO_KEY, 7)
    found = differences(await bookings.effects(connection), {"shop/1": "compensated"})
    assert any("2 effects at shipping under one key" in fault for fault in found)
    assert any("2 effects and 1 undos" in fault for fault in found)
