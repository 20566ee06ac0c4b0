"""What the services cost while nothing is to be done: ``python -m benchmarks.idle``.

One process of each on private servers: how long each takes from its start until it is ready, started alone; then,
over ``--seconds``, the CPU of all processes and the statements that Postgres runs for them; the memory of each.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from typing import Final

import asyncpg
import psutil
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks import processes, systems
from benchmarks.meters import Cpu
from benchmarks.processes import SERVICES, Process
from triumvir.local import PrivateServers

SETTLE_SECONDS: Final = 5.0
_STATEMENT: Final = re.compile(r" duration: .* (statement|execute [^:]+): ")
_MEGABYTE: Final = 1_000_000


async def _start(servers: PrivateServers, settings: dict[str, str]) -> tuple[list[Process], dict[str, float]]:
    """One process of each service, and the seconds until each was ready."""
    started, seconds = [], {}
    for name in SERVICES:
        began = time.monotonic()
        process = processes.start_service(name, servers.folder, settings)
        started.append(process)
        await asyncio.to_thread(process.await_ready)
        seconds[name] = time.monotonic() - began
    return started, seconds


async def _statements(servers: PrivateServers, seconds: float) -> float:
    """Statements per second, as Postgres logs them while it is told to."""
    log = servers.folder / "database" / "postgres.log"
    database = await asyncpg.connect(servers.database.url)
    try:
        await _log_statements(database, "0")
        await asyncio.sleep(SETTLE_SECONDS)
        before = len(log.read_text().splitlines())
        await asyncio.sleep(seconds)
        lines = log.read_text().splitlines()[before:]
        await _log_statements(database, "-1")
    finally:
        await database.close()
    return sum(bool(_STATEMENT.search(line)) for line in lines) / seconds


async def _log_statements(database: asyncpg.Connection, milliseconds: str) -> None:
    await database.execute(f"alter system set log_min_duration_statement = {milliseconds}")
    await database.execute("select pg_reload_conf()")


async def _run(seconds: float) -> None:
    console = Console(width=None if sys.stdout.isatty() else 120)
    async with PrivateServers() as servers:
        settings = await systems.prepared(servers)
        started, ready = await _start(servers, settings)
        try:
            pids = {process.name: process.pid for process in started}
            everything = {**pids, "broker": servers.broker.pid, "postgres": servers.database.pid}
            await asyncio.sleep(SETTLE_SECONDS)
            before = Cpu.read(everything)
            await asyncio.sleep(seconds)
            used = Cpu.read(everything).since(before)
            statements = await _statements(servers, seconds)
            memory = {name: psutil.Process(pid).memory_info().rss / _MEGABYTE for name, pid in pids.items()}
        finally:
            await asyncio.to_thread(processes.end_all, started)
    table = Table("process", "start to ready, s", "CPU, % of a core", "memory, MB", title="Idle")
    for name, spent in used.items():
        table.add_row(
            name,
            f"{ready[name]:.2f}" if name in ready else "-",
            f"{spent / seconds * 100:.2f}",
            f"{memory[name]:.0f}" if name in memory else "-",
        )
    services = sum(used[name] for name in pids) / seconds * 100
    console.print(table)
    console.print(f"services together: {services:.2f} % of a core (target: under 2)")
    console.print(f"statements: {statements:.1f} per second (target: under 10)")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long each reading takes")
    uvloop.run(_run(parser.parse_args().seconds))


if __name__ == "__main__":
    main()
