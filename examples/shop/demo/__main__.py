"""Exit code 0 only if every order came to an end and ledgers, store and client agree."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from shop.demo.orders_file import read_orders
from shop.demo.play import play
from shop.demo.report import Report, show
from shop.demo.system import System
from shop.processes import EXAMPLES

DEADLINE_SECONDS: Final = 290.0
OWN_ORDERS: Final = EXAMPLES / "shop" / "orders.ndjson"


async def demo(orders: list[dict[str, Any]], seed: int, folder: Path, console: Console) -> Report:
    """Starts everything, plays, and ends everything, within five minutes."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with asyncio.timeout(DEADLINE_SECONDS):
        console.print("starting RabbitMQ, Postgres, three services of the shop and seven Triumvir processes")
        async with System(folder, seed) as system:
            report = await play(orders, system, console)
            if dead := system.dead():
                report.amiss.append(f"ended by themselves: {', '.join(dead)}")
            return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m shop.demo", description=__doc__)
    parser.add_argument("--orders", type=Path, default=OWN_ORDERS, help="NDJSON, one order a line")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(10_000), help="what goes wrong is drawn from it"
    )
    chosen = parser.parse_args()
    console = Console()
    try:
        orders = read_orders(chosen.orders)
    except (OSError, ValueError) as error:
        console.print(str(error), style="red", markup=False)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="triumvir-demo-"))
    folder.chmod(0o711)  # the database runs as a user of its own and must reach its folder
    console.print(f"{len(orders)} orders of {chosen.orders.name}, seed {chosen.seed}", highlight=False)
    return _play(orders, chosen.seed, folder, console)


def _play(orders: list[dict[str, Any]], seed: int, folder: Path, console: Console) -> int:
    began = time.monotonic()
    good = False
    try:
        report = asyncio.run(demo(orders, seed, folder, console))
        good = report.is_good
        show(report, console)
        console.print(_last_line(report, time.monotonic() - began, seed), style="green" if good else "red")
    except RuntimeError as error:
        console.print(str(error), style="red", markup=False, highlight=False)
    except TimeoutError:
        console.print(
            f"not every order came to an end within {DEADLINE_SECONDS:.0f} s; seed {seed}", style="red"
        )
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("interrupted; everything that was started is ended", style="red")
    finally:
        if good:
            shutil.rmtree(folder)
        else:
            console.print(f"logs and ledgers are kept in {folder}", highlight=False, soft_wrap=True)
    return 0 if good else 1


def _last_line(report: Report, seconds: float, seed: int) -> str:
    ends = ", ".join(f"{count} {group}" for group, count in sorted(report.groups.items()))
    verdict = "ledgers, store and client agree" if report.is_good else "they do NOT agree"
    return f"{sum(report.groups.values())} orders: {ends}; {verdict}; {seconds:.0f} s; seed {seed}"


if __name__ == "__main__":
    sys.exit(main())
