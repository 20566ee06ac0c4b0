"""More processes of each service on the same machine: ``python -m benchmarks.scale``.

The same saturated load on one, two, four and eight processes of every service, in turn, each on servers and in a
schema of its own. On a machine whose cores are all busy with one of each, more must not make it slower; the CPU of
each part per 1000 orders says how many orders a core of it takes.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Final

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks import systems
from benchmarks.meters import Cpu
from triumvir.local import PrivateServers

WARM_UP_ORDERS: Final = 300
ROUND_SECONDS: Final = 240.0
PARTS: Final = ("broker", "postgres", "submitter", "scheduler", "agent", "supervisor")


async def _measure(each: int, orders: int) -> tuple[float, dict[str, float]]:
    """Orders per second, and CPU seconds per 1000 orders by part, of so many processes of every service."""
    async with PrivateServers() as servers, systems.suite(servers, servers.folder, each=each) as suite:
        warm = [f"warm-{place}" for place in range(WARM_UP_ORDERS)]
        await suite.driver.saturated(warm, within=ROUND_SECONDS)
        before = Cpu.read(suite.pids)
        timing = await suite.driver.saturated([f"o-{n}" for n in range(orders)], within=ROUND_SECONDS)
        used: dict[str, float] = defaultdict(float)
        for name, seconds in Cpu.read(suite.pids).since(before).items():
            used[name.split()[0]] += seconds * 1000 / orders
    return timing.per_second, used


async def _run(counts: Sequence[int], rounds: int, orders: int) -> None:
    found: dict[int, list[tuple[float, dict[str, float]]]] = defaultdict(list)
    for number in range(rounds):
        for each in counts if number % 2 == 0 else counts[::-1]:
            found[each].append(await _measure(each, orders))
    table = Table(
        "processes of each",
        "orders/s",
        "of one each",
        *PARTS,
        title="CPU seconds per 1000 orders; medians",
    )
    for each in counts:
        speeds = [speed for speed, _ in found[each]]
        ratios = [speed / one for (speed, _), (one, _) in zip(found[each], found[counts[0]], strict=True)]
        parts = [f"{median(used[part] for _, used in found[each]):.2f}" for part in PARTS]
        table.add_row(str(each), f"{median(speeds):.0f}", f"{median(ratios):.2f}", *parts)
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8], help="of every service")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--orders", type=int, default=2000, help="per round")
    options = parser.parse_args()
    uvloop.run(_run(options.processes, options.rounds, options.orders))


if __name__ == "__main__":
    main()
