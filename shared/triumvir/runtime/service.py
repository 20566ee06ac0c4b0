"""The chassis of every service: start, run, drain, exit code.

::

    def main() -> None:
        run_service("scheduler", serve)

    async def serve(chassis: Chassis) -> None:
        pool = await chassis.enter(open_pool(chassis.settings))
        ...
        chassis.add_loop(Loop("claims", claims.step, chassis.settings.poll_interval))
        chassis.add_readiness("database", pool.ready)
        chassis.on_drain("stop taking", consumer.stop_taking, order=drain.TAKING)

``serve`` wires and returns; loops and tasks begin when it has returned. SIGTERM or SIGINT drains: the steps
of :meth:`Chassis.on_drain` from the lowest order to the highest, loops and tasks at theirs, then what was
entered is closed in reverse. A second signal ends the process at once.

Exit codes: 0 drained, 1 something failed or did not drain in time, 2 settings or arguments refused, 70 ended by the
watchdog, 143 and 130 a second SIGTERM or SIGINT.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version
from typing import Final, NoReturn
from uuid import uuid4

import uvloop

from triumvir import settings as settings_module
from triumvir.errors import ConfigurationError
from triumvir.runtime import crash
from triumvir.runtime.chassis import Chassis
from triumvir.runtime.watchdog import Watchdog
from triumvir.settings import Settings
from triumvir.telemetry import events, export, logs

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_CONFIGURATION: Final = 2
EXIT_SECONDS: Final = 5.0
"""From the end of the drain to the end of the process, the last telemetry included."""

log = logs.get_logger(__name__)


def run_service(
    name: str,
    main: Callable[[Chassis], Awaitable[None]],
    settings: Settings | None = None,
    check: Callable[[Settings], object] = lambda settings: None,
    args: Sequence[str] = (),
    known: Sequence[str] = (),
) -> NoReturn:
    """Run a service until it is told to stop; exits the process. ``settings`` default to the environment; what
    ``check`` raises as ConfigurationError refuses them. ``args``, what stood behind the service's name, may be
    ``known`` ones only.
    """
    _refuse_arguments(args, known)
    try:
        settings = settings or settings_module.load()
        check(settings)
        crash.configure(settings)
    except ConfigurationError as error:
        _refuse(name, error)
    instance = str(uuid4())
    export.configure(settings, name, instance)
    for problem in settings_module.unknown_variables():
        log.warning(events.SETTING_UNKNOWN, problem=problem)
    log.info(events.SERVICE_STARTING, pid=os.getpid(), version=version("triumvir"))
    went_well = _run_until_drained(Chassis(name, settings, instance), main)
    export.shutdown()
    log.info(events.SERVICE_STOPPED, went_well=went_well)
    sys.exit(EXIT_OK if went_well else EXIT_FAILED)


def _refuse_arguments(args: Sequence[str], known: Sequence[str]) -> None:
    unknown = [argument for argument in args if argument not in known]
    if unknown:
        takes = f"it takes {' '.join(known)} and nothing else" if known else "it takes none"
        refuse_usage(f"unknown argument {unknown[0]!r}: {takes}; settings are TRIUMVIR_ variables")


def refuse_usage(problem: str) -> NoReturn:
    """What was typed is wrong: a line for whoever typed it, and the exit code of a refused configuration."""
    sys.stderr.write(f"triumvir: {problem}\n")
    sys.exit(EXIT_CONFIGURATION)


def _run_until_drained(chassis: Chassis, main: Callable[[Chassis], Awaitable[None]]) -> bool:
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(chassis, main))
    except Exception:  # whatever it is, it is logged as everything else and the process exits non-zero
        log.exception(events.SERVICE_FAILED)
        return False


async def _run(chassis: Chassis, main: Callable[[Chassis], Awaitable[None]]) -> bool:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, chassis, number)
    went_well = await chassis.run(main)
    _bound_the_exit(chassis.settings)
    return went_well


def _bound_the_exit(settings: Settings) -> None:
    """Threads that hang (plain operations, libraries) must not keep a drained process from ending."""
    last_resort = Watchdog(settings.watchdog_timeout)
    last_resort.expect_exit_within(EXIT_SECONDS)
    last_resort.start()


def _on_signal(chassis: Chassis, number: signal.Signals) -> None:
    if chassis.draining.is_set():
        log.warning(events.SERVICE_KILLED, signal=number.name)
        os._exit(128 + number)
    chassis.request_drain()


def _refuse(name: str, error: ConfigurationError) -> NoReturn:
    logs.configure(Settings.model_construct(), name, "-")
    log.error(events.CONFIGURATION_REFUSED, error=str(error))
    sys.exit(EXIT_CONFIGURATION)
