"""The course of the demo: submit, watch, kill, wait for every end, compare."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import asyncpg
from rich.console import Console

import triumvir
from shop import bookings
from shop.demo import records
from shop.demo.following import Following
from shop.demo.report import Report, compare
from shop.demo.screen import Screen
from shop.demo.system import System
from shop.services.ledger import read

VICTIMS: Final = (("agent-payments", 0.2), ("scheduler", 0.4))
"""Who is killed, and at which share of orders that have come to an end."""
SUBMISSIONS_AT_ONCE: Final = 100


async def play(orders: list[dict[str, Any]], system: System, console: Console) -> Report:
    """Plays the orders on a system that runs; returns once every one has come to an end."""
    with Screen(console, len(orders)) as screen:
        async with triumvir.Client(system.client_url) as client, asyncio.TaskGroup() as tasks:
            tasks.create_task(_kill_some(system, screen))
            room = asyncio.Semaphore(SUBMISSIONS_AT_ONCE)
            for order in orders:
                tasks.create_task(_follow(client, order, room, screen.following))
        return await _compare(system, screen.following)


async def _follow(
    client: triumvir.Client, order: dict[str, Any], room: asyncio.Semaphore, following: Following
) -> None:
    async with room:
        submitted = await client.submit("order-fulfilment", order, order_id=order["order_id"])
    async for status in submitted.statuses():
        if following.told(order["order_id"], status.status, status.detail):
            return


async def _kill_some(system: System, screen: Screen) -> None:
    for name, share in VICTIMS:
        await screen.following.until_ended(share)
        open_orders = screen.following.total - screen.following.ended
        await system.kill(name)
        screen.say(f"SIGKILL to {name} with {open_orders} orders on their way; starting it again")
        await system.start(name)


async def _compare(system: System, following: Following) -> Report:
    entries = [entry.model_dump() for service in system.services.values() for entry in read(service.ledger)]
    connection = await asyncpg.connect(system.servers.database.url)
    try:
        held = await records.read(connection)
        effects = [entry for entry in entries if entry["kind"] == "effect"]
        effects += await bookings.effects(connection)
    finally:
        await connection.close()
    calls = [entry for entry in entries if entry["kind"] == "call"]
    return compare(held, effects, calls, following)
