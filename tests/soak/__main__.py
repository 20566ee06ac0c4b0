"""Everything that may go wrong does, mixed at random from a seed, for so many seconds; then the audit.

``python -m tests.soak --seconds 600 --seed 7`` starts private servers and every process itself, and ends them. The exit
code is 0 only if every promise was kept.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console

from tests.house.source import ROOT
from tests.soak.outcome import Outcome
from tests.soak.play import play
from tests.soak.report import show
from tests.soak.system import System
from triumvir.settings import chosen_transport

CLEAN, BROKEN, INTERRUPTED = 0, 1, 130
AFTERWARDS: Final = 900.0
"""Seconds for starting, coming to rest and the audit, on a slow machine."""
LOGS: Final = ROOT / ".run" / "soak"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long faults go on")
    parser.add_argument("--seed", type=int, help="what goes wrong is drawn from it; by default from the time")
    parser.add_argument("--launcher", default="tests.faults.tap", help="the module that runs each service")
    options = parser.parse_args()
    if options.seconds <= 0:
        parser.error("--seconds: must be more than 0")
    if options.seed is None:
        options.seed = random.randrange(10_000)
    return options


async def _soak(options: argparse.Namespace, folder: Path, console: Console) -> Outcome:
    whole = asyncio.current_task()
    assert whole is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, whole.cancel)  # as Ctrl-C does
    began = time.monotonic()

    def say(text: str) -> None:
        console.print(
            f"{time.monotonic() - began:6.1f} s  {text}", highlight=False, markup=False, soft_wrap=True
        )

    say("starting RabbitMQ, Postgres, and two of each service")
    async with (
        asyncio.timeout(options.seconds + AFTERWARDS),
        System(folder, options.seed, options.launcher) as system,
    ):
        say("all run; faults and load begin")
        return await play(system, options.seconds, say)


def main() -> int:
    """Runs the soak; its exit code."""
    options, console = _options(), Console(width=None if sys.stdout.isatty() else 120)
    folder = LOGS / f"seed-{options.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    console.print(
        f"soak: {options.seconds:g} s, SEED={options.seed}, transport {chosen_transport()}", highlight=False
    )
    code = BROKEN
    try:
        outcome = asyncio.run(_soak(options, folder, console))
        show(outcome, console)
        code = CLEAN if outcome.is_clean else BROKEN
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever stopped it is told in a few lines, and kept in full
        (folder / "soak.log").write_text("".join(traceback.format_exception(error)))
        for line in dict.fromkeys(_words(error)):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    finally:
        _tell_end(code, options.seed, folder, console)
    return code


def _words(error: BaseException) -> Iterator[str]:
    """What went wrong, one text for each of several errors."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _words(each)
    elif not isinstance(error, asyncio.CancelledError):
        yield f"{type(error).__name__}: {error}"


def _tell_end(code: int, seed: int, folder: Path, console: Console) -> None:
    if code == BROKEN:
        console.print(f"NOT clean, SEED={seed}; logs, journal and evidence: {folder}", soft_wrap=True)
        return
    shutil.rmtree(folder)
    console.print(f"clean, SEED={seed}" if code == CLEAN else "interrupted; everything is ended and removed")


if __name__ == "__main__":
    sys.exit(main())
