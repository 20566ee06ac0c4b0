"""The operations of the shop's agents against real services and a real database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, cast

import asyncpg
import pytest

from shop import agents, bookings
from shop.models import Line, Order
from shop.processes import Service
from shop.services.chance import Fault, conduct, is_unlucky
from shop.services.ledger import read
from shop.settings import ShopSettings
from triumvir.agent import Context, Permanent, Transient

RunService = Callable[..., Awaitable[Service]]
SEED = 1


@dataclass
class AtHand:
    """What an operation is given, for one order and one database connection of the test."""

    order_id: str
    step: str
    direction: str = "do"
    connection: Any = None
    client: str = "shop"
    fence: int = 5
    time_left: timedelta = timedelta(seconds=20)

    @property
    def idempotency_key(self) -> str:
        return f"{self.client}/{self.order_id}/{self.step}/{self.direction}/0"

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        async with self.connection.transaction():
            yield self.connection


def at_hand(order: Order, step: str, direction: str = "do", connection: Any = None) -> Context:
    return cast(Context, AtHand(order.order_id, step, direction, connection))


def order_that_meets(step: str, fault: Fault = Fault.NONE, *, country: str = "United Kingdom") -> Order:
    """An order whose first call in this step goes like this, whose undo goes well, and that is not unlucky."""
    for number in range(100_000):
        key = f"shop/{number}/{step}/do/0"
        undo_goes_well = conduct(SEED, f"shop/{number}/{step}/undo/0", 1, undo=True).fault is Fault.NONE
        if conduct(SEED, key, 1).fault is fault and undo_goes_well and not is_unlucky(SEED, key, 0.05):
            line = Line(sku="GL-1", quantity=10, unit_price=Decimal("1.25"))
            return Order(order_id=str(number), placed_at="2024-06-11", country=country, lines=[line])
    raise AssertionError(f"no order meets {fault}")


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Service], None]]:
    """Points the agents to a running service."""

    def point(service: Service) -> None:
        chosen = ShopSettings.model_validate({f"{service.name}_url": service.url, "patience": 20})
        monkeypatch.setattr(agents, "settings", chosen)

    yield point  # noqa: PT022 - monkeypatch takes it back


@pytest.fixture
async def connection(empty_database_url: str) -> AsyncIterator[Any]:
    opened = await asyncpg.connect(empty_database_url)
    await bookings.create_table(opened)
    yield opened
    await opened.close()


def effects(service: Service) -> list[tuple[str, str, str]]:
    return [
        (entry.direction, entry.order, entry.amount)
        for entry in read(service.ledger)
        if entry.kind == "effect"
    ]


async def test_stock_is_reserved_and_released(
    run_service: RunService, use: Callable[[Service], None]
) -> None:
    inventory = await run_service("inventory")
    use(inventory)
    order = order_that_meets("reserve")
    reservation = await agents.reserve_stock(at_hand(order, "reserve"), order)
    assert reservation.units == 10
    await agents.release_stock(at_hand(order, "reserve", "undo"), order, reservation)
    key = f"shop/{order.order_id}"
    assert effects(inventory) == [("do", key, "10"), ("undo", key, "10")]


async def test_a_charge_is_refunded_even_if_its_receipt_was_lost(
    run_service: RunService, use: Callable[[Service], None]
) -> None:
    payments = await run_service("payments")
    use(payments)
    order = order_that_meets("charge", Fault.DROP_AFTER)
    with pytest.raises(Transient) as raised:
        await agents.charge_card(at_hand(order, "charge"), order)
    assert raised.value.effect == "unknown"
    await agents.refund(at_hand(order, "charge", "undo"), order, None)
    key = f"shop/{order.order_id}"
    assert effects(payments) == [("do", key, "12.50"), ("undo", key, "12.50")]


async def test_a_booking_is_a_row_and_its_cancellation_another(
    run_service: RunService, use: Callable[[Service], None], connection: Any
) -> None:
    use(await run_service("shipping"))
    order = order_that_meets("ship")
    booking = await agents.book_courier(at_hand(order, "ship", connection=connection), order)
    assert booking.courier == "Shire Carriers"
    await agents.cancel_courier(at_hand(order, "ship", "undo", connection), order, booking)
    rows = await bookings.effects(connection)
    assert [(row["direction"], row["order"], row["amount"]) for row in rows] == [
        ("do", f"shop/{order.order_id}", "3.40"),
        ("undo", f"shop/{order.order_id}", "3.40"),
    ]


async def test_where_no_courier_goes_nothing_is_booked(
    run_service: RunService, use: Callable[[Service], None], connection: Any
) -> None:
    use(await run_service("shipping"))
    order = order_that_meets("ship", country="Antarctica")
    with pytest.raises(Permanent, match="no courier goes to Antarctica"):
        await agents.book_courier(at_hand(order, "ship", connection=connection), order)
    assert await bookings.effects(connection) == []


async def test_a_quote_that_failed_leaves_no_effect_in_doubt(
    run_service: RunService, use: Callable[[Service], None], connection: Any
) -> None:
    use(await run_service("shipping"))
    order = order_that_meets("ship", Fault.ERROR_AFTER)
    with pytest.raises(Transient) as raised:
        await agents.book_courier(at_hand(order, "ship", connection=connection), order)
    assert raised.value.effect == "none"
