"""The couriers booked: rows of the table ``shop.bookings``, in the database that Triumvir keeps its state in.

The table has no unique constraint, on purpose. A booking is written in ``ctx.transaction`` and so exactly once,
however often the step is tried; were the fence of that transaction broken, the order would have two rows here.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg

from shop.models import Booking
from triumvir.settings import load

SCHEMA = """
create schema if not exists shop;
create table if not exists shop.bookings (
    no              bigint generated always as identity primary key,
    order_key       text not null,
    direction       text not null check (direction in ('do', 'undo')),
    idempotency_key text not null,
    fence           bigint not null,
    courier         text not null,
    price           numeric(12, 2) not null,
    at              timestamptz not null default clock_timestamp()
);
create index if not exists bookings_order_key on shop.bookings (order_key);
"""

BOOK = """
insert into shop.bookings (order_key, direction, idempotency_key, fence, courier, price)
values ($1, 'do', $2, $3, $4, $5)
"""

CANCEL = """
insert into shop.bookings (order_key, direction, idempotency_key, fence, courier, price)
select order_key, 'undo', $2, $3, courier, price
from shop.bookings booked
where order_key = $1 and direction = 'do'
  and not exists (select from shop.bookings where order_key = $1 and direction = 'undo')
order by no limit 1
"""

EFFECTS = """
select order_key, direction, idempotency_key, courier, price, extract(epoch from at)::float8 as at
from shop.bookings order by no
"""


async def create_table(connection: Any) -> None:
    """Creates ``shop.bookings`` where it is missing."""
    await connection.execute(SCHEMA)


async def book(connection: Any, order_key: str, key: str, fence: int, booking: Booking) -> None:
    """Adds a booking. The caller's transaction makes it happen once."""
    await connection.execute(BOOK, order_key, key, fence, booking.courier, booking.price)


async def cancel(connection: Any, order_key: str, key: str, fence: int) -> None:
    """Cancels the order's booking; does nothing if there is none, or if it is cancelled already."""
    await connection.execute(CANCEL, order_key, key, fence)


async def effects(connection: Any) -> list[dict[str, Any]]:
    """Every booking and cancellation, in the shape of the services' ledgers (``services/ledger.py``)."""
    return [
        {
            "kind": "effect",
            "service": "shipping",
            "order": row["order_key"],
            "direction": row["direction"],
            "key": row["idempotency_key"],
            "amount": f"{row['price']:.2f}",
            "at": row["at"],
        }
        for row in await connection.fetch(EFFECTS)
    ]


async def _main() -> None:
    connection = await asyncpg.connect(load().database_url, timeout=timedelta(seconds=10).total_seconds())
    try:
        await create_table(connection)
    finally:
        await connection.close()


if __name__ == "__main__":
    asyncio.run(_main())
