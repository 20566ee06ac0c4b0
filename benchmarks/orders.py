"""Three-step orders through all services, in turn with the same messages by the bare client library.

``python -m benchmarks.orders`` starts private servers and every process itself, prints tables, and cleans up.
Everything of both systems shares the machine's cores with the client that drives them, so only ratios taken in
one run mean anything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pstats
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import asyncpg
import uvloop
from rich.console import Console

from benchmarks import report, systems
from benchmarks.meters import Counters
from benchmarks.rounds import Course, Plan
from benchmarks.systems import System
from triumvir.local import PrivateServers

WHOLE_RUN_SECONDS: Final = 1800.0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.orders", description=__doc__)
    parser.add_argument("--orders", type=int, default=2000, help="orders per saturated round")
    parser.add_argument("--light-orders", type=int, default=300, help="orders per round at 20 a second")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the systems take turns in each")
    parser.add_argument("--quick", action="store_true", help="one round of 500 orders, and 60 at 20 a second")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--profile", type=Path, metavar="FOLDER", help="run the services under cProfile")
    return parser.parse_args()


@asynccontextmanager
async def _started(profile: Path | None) -> AsyncIterator[tuple[list[System], dict[str, Counters]]]:
    async with PrivateServers() as servers:
        logs = servers.folder
        database = await asyncpg.connect(servers.database.url)
        try:
            async with systems.suite(servers, logs, profile) as ours, systems.raw(servers, logs) as theirs:
                both = [ours, theirs]
                counters = {
                    system.name: Counters(database, servers.broker.management_url, system.vhost)
                    for system in both
                }
                yield both, counters
        finally:
            await database.close()


async def _run(plan: Plan, profile: Path | None) -> Course:
    whole = asyncio.current_task()
    assert whole is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, whole.cancel)  # as Ctrl-C does
    async with asyncio.timeout(WHOLE_RUN_SECONDS), _started(profile) as (both, counters):
        course = Course(plan, both, counters)
        await course.run()
        return course


def _list_profiles(folder: Path) -> None:
    """Beside each profile its functions as text, the dearest first; cProfile makes small functions look dear."""
    for path in sorted(folder.glob("*.pstats")):
        with path.with_suffix(".txt").open("w") as text:
            pstats.Stats(str(path), stream=text).sort_stats("tottime").print_stats(80)


def main() -> None:
    """Measures, prints, and exits 0; whether targets were met is for the reader to judge."""
    options = _options()
    plan = Plan(1, 500, 60) if options.quick else Plan(options.rounds, options.orders, options.light_orders)
    if options.profile is not None:
        options.profile.mkdir(parents=True, exist_ok=True)
    course = uvloop.run(_run(plan, options.profile))
    if options.profile is not None:
        _list_profiles(options.profile)
    if options.json:
        context = {"plan": plan.__dict__, "idle_commits_per_second": course.idle_commits}
        json.dump(report.as_json(course.results, **context), sys.stdout, indent=2)
    else:
        console = Console(width=None if sys.stdout.isatty() else 120)
        console.print(f"{plan.orders} orders a round; idle: {course.idle_commits:.1f} commits/s")
        report.show(course.results, console)


if __name__ == "__main__":
    main()
