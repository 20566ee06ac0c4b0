"""The course of the demo: submit, watch, kill, wait for every end, compare."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg

import triumvir
from shop import bookings
from shop.demo import records
from shop.demo.following import Following
from shop.demo.report import Report, compare
from shop.demo.screen import Screen
from shop.demo.system import System
from shop.services.ledger import read

VICTIMS: Final = (("agent-payments", 0.15), ("scheduler", 0.35))
"""Who is killed, and at which share of orders that have come to an end."""


async def play(orders: list[dict[str, Any]], system: System, screen: Screen) -> Report:
    """Plays the orders on a system that runs; returns once every one has come to an end, and all is compared."""
    began = screen.seconds
    with screen.watching(len(orders)) as following:
        screen.say(f"submitting {len(orders)} orders")
        async with triumvir.Client(system.client_url) as client, asyncio.TaskGroup() as tasks:
            for name, share in VICTIMS:
                tasks.create_task(_kill(name, share, system, screen, following))
            await _submit(client, orders, following, tasks)
    async with _connection(system) as connection:
        await records.until_at_rest(connection)
        ended = screen.seconds
        report = await _compare(system, connection, following)
    report.seconds.update({"set-up": began, "orders, with two kills": ended - began})
    report.amiss.extend(f"{name} ended by itself" for name in system.dead())
    report.amiss.extend(f"{name} did not end in order" for name in await system.stop_processes())
    return report


async def _submit(
    client: triumvir.Client,
    orders: list[dict[str, Any]],
    following: Following,
    tasks: asyncio.TaskGroup,
) -> None:
    submissions = [
        triumvir.Submission("order-fulfilment", order, order_id=order["order_id"]) for order in orders
    ]
    async for submitted in client.submit_many(submissions):
        if submitted.order is not None:
            tasks.create_task(_follow(submitted.order, following))
        else:
            following.told(submitted.submission.order_id, "rejected", str(submitted.error))


async def _follow(order: triumvir.Order, following: Following) -> None:
    async for status in order.statuses():
        if following.told(order.order_id, status.status, status.detail):
            return


async def _kill(name: str, share: float, system: System, screen: Screen, following: Following) -> None:
    """SIGKILL at that share of ended orders, then another start."""
    await following.until_ended(share)
    async with _connection(system) as connection:
        in_hand = await records.in_hand(connection, system.pid(name))
    await system.kill(name)
    calls = f", {in_hand} calls under way in it" if name.startswith("agent") else ""
    screen.say(f"SIGKILL to {name}: {following.open} orders open{calls}; starting it again")
    await system.start(name)
    screen.say(f"{name} runs again")


@asynccontextmanager
async def _connection(system: System) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(system.servers.database.url)
    try:
        yield connection
    finally:
        await connection.close()


async def _compare(system: System, connection: Any, following: Following) -> Report:
    entries = [entry.model_dump() for service in system.services.values() for entry in read(service.ledger)]
    effects = [entry for entry in entries if entry["kind"] == "effect"]
    effects += await bookings.effects(connection)
    calls = [entry for entry in entries if entry["kind"] == "call"]
    return compare(await records.read(connection), effects, calls, following)
