"""Processes of the demo and of the tests: each in a session of its own, its output in a log, ended for certain."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

EXAMPLES: Final = Path(__file__).parents[1]
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 25.0
"""Longer than a Triumvir process takes to finish what is in hand (20 s)."""
COMMAND_SECONDS: Final = 60.0
LOG_LINES: Final = 8

HANDED_ON: Final = frozenset({"TRIUMVIR_LOG_LEVEL", "TRIUMVIR_LOG_FORMAT", "TRIUMVIR_OTLP_ENDPOINT"})
"""Of this process's own settings, what children are given; their servers are private, and so is the rest."""


@dataclass
class Child:
    """A running process; what it printed is in ``log``."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.returncode is None

    def complaint(self) -> str:
        """The end of its log, for an error message."""
        return "\n".join(map(_short, self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]))

    async def kill(self) -> None:
        """SIGKILL: it has no chance to put anything in order."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> bool:
        """SIGTERM, then SIGKILL if that is not heeded within 25 seconds; whether it ended in order."""
        try:
            await self._end(signal.SIGTERM)
        except TimeoutError:
            await self.kill()
        return self.process.returncode == 0

    async def _end(self, number: signal.Signals) -> None:
        if self.is_running:
            self.process.send_signal(number)
            await asyncio.wait_for(self.process.wait(), STOP_SECONDS)


@dataclass
class Service(Child):
    """A service of the shop that listens at ``url`` and keeps its ledger in ``ledger``."""

    url: str
    ledger: Path


async def start(
    name: str, command: list[str], *, folder: Path, env: Mapping[str, str] | None = None
) -> Child:
    """Starts ``command``; a process started again under the same name goes on with the log ``<name>.log``."""
    log = folder / f"{name}.log"
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *_bound(command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_environment(env),
            start_new_session=True,
        )
    return Child(name, process, log)


async def run(command: list[str], *, env: Mapping[str, str] | None = None) -> str:
    """Runs ``command`` to its end; what it printed. Raises RuntimeError with its complaint if it fails."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(env),
        start_new_session=True,
    )
    try:
        output, complaint = await asyncio.wait_for(process.communicate(), COMMAND_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        words = (complaint or output).decode(errors="replace").strip()
        raise RuntimeError(f"{Path(command[0]).name} {' '.join(command[1:])} failed:\n{words}")
    return output.decode()


async def start_service(name: str, *, folder: Path, seed: int, port: int = 0) -> Service:
    """Starts a service of the shop and waits until it listens. Raises RuntimeError with its log if it ends first."""
    log, ledger = folder / f"{name}.log", folder / f"{name}.ndjson"
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *_bound([sys.executable, "-m", "shop.services", name]),
            *("--port", str(port), "--seed", str(seed), "--ledger", str(ledger)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=_environment(None),
            start_new_session=True,
        )
    assert process.stdout is not None
    service = Service(name, process, log, "", ledger)
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_SECONDS)
        service.url = json.loads(line)["url"]
    except (TimeoutError, ValueError) as error:
        raise RuntimeError(f"the service {name} did not start:\n{log.read_text()}") from error
    finally:
        if not service.url:
            await service.kill()
    return service


def _short(line: str) -> str:
    """Of a line of log what a person reads first; the log itself has the rest."""
    try:
        entry = json.loads(line)
        return f"{entry['level']}: {entry['event']} {entry.get('error', '')}".rstrip()
    except (ValueError, TypeError, KeyError):
        return line


def _bound(command: list[str]) -> list[str]:
    """The command made to end with this process, even if that is killed; as it is where ``setpriv`` is missing."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", *command] if setpriv else command


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """This process's environment with ``env`` over it, and the examples where Python finds them."""
    path = os.pathsep.join([str(EXAMPLES), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {
        name: value
        for name, value in os.environ.items()
        if name in HANDED_ON or not name.startswith(("TRIUMVIR_", "SHOP_"))
    }
    return {**own, "PYTHONPATH": path, **(env or {})}
