"""A backlog that drains: ``python -m benchmarks.backlog --orders 100000``.

Orders are submitted while no scheduler and no agent runs; then one of each is started, and it is told how fast each
tenth of the backlog is completed and how much memory each process has by then.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import Final

import asyncpg
import psutil
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks import processes, systems
from benchmarks.driver import Driver
from benchmarks.processes import Process
from triumvir.local import PrivateServers

PARTS: Final = 10
LOOK_SECONDS: Final = 0.2
LONGEST_SECONDS: Final = 1500.0
_MEGABYTE: Final = 1_000_000
_WAITING: Final = "select count(*) from triumvir.orders where state = 'pending'"


async def _accepted(servers: PrivateServers, orders: int) -> None:
    database = await asyncpg.connect(servers.database.url)
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            while await database.fetchval(_WAITING) < orders:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(1.0)
    finally:
        await database.close()


async def _drain(driver: Driver, orders: int, running: list[Process], table: Table) -> None:
    """A row for each tenth."""
    began = last = time.monotonic()
    async with asyncio.timeout(LONGEST_SECONDS):
        for part in range(1, PARTS + 1):
            while driver.completed < orders * part // PARTS:  # noqa: ASYNC110 - a reading now and then
                await asyncio.sleep(LOOK_SECONDS)
            now = time.monotonic()
            memory = [psutil.Process(process.pid).memory_info().rss / _MEGABYTE for process in running]
            table.add_row(
                f"{part * 100 // PARTS} %",
                f"{now - began:.0f}",
                f"{orders / PARTS / (now - last):.0f}",
                *(f"{size:.0f}" for size in memory),
            )
            last = now


async def _run(orders: int) -> None:
    console = Console(width=None if sys.stdout.isatty() else 120)
    async with PrivateServers() as servers:
        settings = await systems.prepared(servers) | {"TRIUMVIR_MAX_OPEN_ORDERS": str(orders + 1000)}
        running = [processes.start_service("submitter", servers.folder, settings)]
        try:
            await asyncio.to_thread(running[0].await_ready)
            async with systems.suite_driver(servers.broker.url) as driver:
                began = time.monotonic()
                await driver.submit([f"backlog-{place}" for place in range(orders)])
                await _accepted(servers, orders)
                console.print(f"accepted {orders / (time.monotonic() - began):.0f} orders a second")
                running += [
                    processes.start_service(name, servers.folder, settings)
                    for name in ("scheduler", "agent", "supervisor")
                ]
                names = [f"{process.name}, MB" for process in running]
                table = Table("completed", "seconds", "orders/s", *names, title=f"{orders} orders")
                await _drain(driver, orders, running, table)
                console.print(table)
        finally:
            await asyncio.to_thread(processes.end_all, running)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.backlog", description=__doc__)
    parser.add_argument("--orders", type=int, default=100_000)
    uvloop.run(_run(parser.parse_args().orders))


if __name__ == "__main__":
    main()
