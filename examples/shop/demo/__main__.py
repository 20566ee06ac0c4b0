"""Exit code 0 only if every order came to an end and ledgers, store and client agree."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rich.console import Console

import shop.demo
from shop.demo.orders_file import read_orders
from shop.demo.play import play
from shop.demo.report import Report
from shop.demo.screen import Screen
from shop.demo.system import System
from shop.demo.tables import last_line, show
from shop.processes import EXAMPLES
from triumvir.local import leftovers

DEADLINE_SECONDS: Final = 290.0
OWN_ORDERS: Final = EXAMPLES / "shop" / "orders.ndjson"
AGREED, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


def main() -> int:
    """Plays the demo; its exit code."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr] # both are text files here
    parser = argparse.ArgumentParser(prog="python -m shop.demo", description=shop.demo.__doc__)
    parser.add_argument("orders", type=Path, nargs="?", default=OWN_ORDERS, help="NDJSON, one order a line")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(10_000), help="what goes wrong is drawn from it"
    )
    parser.add_argument("--keep", action="store_true", help="keep logs and ledgers also if all goes well")
    chosen = parser.parse_args()
    screen = Screen(Console())
    try:
        orders = read_orders(chosen.orders)
    except (OSError, ValueError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return WRONG_USAGE
    folder = leftovers.make_temporary()
    screen.say(
        f"{len(orders)} orders of {chosen.orders.name}, seed {chosen.seed}; logs and ledgers in {folder}"
    )
    code = FAILED
    try:
        code = _play(orders, chosen.seed, folder, screen)
    finally:
        keep = code == FAILED or chosen.keep
        _tidy(folder, keep=keep)
    if keep:
        screen.say(f"seed {chosen.seed}; logs and ledgers are kept in {folder}", style="red")
    return code


def _play(orders: list[dict[str, Any]], seed: int, folder: Path, screen: Screen) -> int:
    try:
        report = asyncio.run(_demo(orders, seed, folder, screen))
    except (KeyboardInterrupt, asyncio.CancelledError):
        screen.say("interrupted; everything that was started is ended and removed", style="red")
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever it was is told in a few lines, and kept in full
        (folder / "demo.log").write_text("".join(traceback.format_exception(error)))
        for line in dict.fromkeys(_words(error)):
            screen.say(line, style="red")
        return FAILED
    report.seconds["all"] = screen.seconds
    show(report, screen.console)
    line = last_line(report, screen.seconds, seed)
    (folder / "report.txt").write_text("\n".join([*report.differences, *report.amiss, line, ""]))
    screen.console.print(line, style="green" if report.is_good else "red", highlight=False, soft_wrap=True)
    return AGREED if report.is_good else FAILED


async def _demo(orders: list[dict[str, Any]], seed: int, folder: Path, screen: Screen) -> Report:
    """Starts everything, plays, and ends everything, within five minutes."""
    _heed_signals(screen)
    limit = asyncio.timeout(DEADLINE_SECONDS)
    try:
        async with limit, System(folder, seed, screen.say) as system:
            return await play(orders, system, screen)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise RuntimeError(f"not every order came to an end within {DEADLINE_SECONDS:.0f} s") from error


def _heed_signals(screen: Screen) -> None:
    """The first Ctrl-C or SIGTERM ends the demo in order; a second one would only leave processes behind."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()

    def end() -> None:
        if not task.cancelling():
            screen.say("ending what was started", style="red")
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)


def _words(error: BaseException) -> Iterator[str]:
    """What went wrong, one text for each of several errors."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _words(each)
    elif not isinstance(error, asyncio.CancelledError):
        yield str(error) if isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}"


def _tidy(folder: Path, *, keep: bool) -> None:
    """Removes the folder, or of one that is kept the servers' data."""
    if not keep:
        shutil.rmtree(folder)
        return
    for data in ("broker/data", "broker/home", "database/cluster"):
        shutil.rmtree(folder / "servers" / data, ignore_errors=True)
    leftovers.keep(folder)


if __name__ == "__main__":
    sys.exit(main())
