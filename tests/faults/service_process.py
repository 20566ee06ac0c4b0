"""A service as a child process that is started again when it dies, as systemd or Kubernetes would."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import aiohttp

from tests.house.source import ROOT
from tests.waiting import eventually, eventually_true


class ServiceProcess:
    """One service. Its output, that of all its lives, is in ``folder/<name>.log``. Exit codes are in ``exits``."""

    def __init__(
        self,
        kind: str,
        name: str,
        folder: Path,
        env: Mapping[str, str],
        arguments: Sequence[str] = (),
        launcher: str | None = None,
    ) -> None:
        """``launcher``: a module of the tests that runs the service, instead of the service's own main."""
        self.name = name
        self.kind = kind
        self.log = folder / f"{name}.log"
        self.exits: list[int] = []
        self.restarting = True
        self._port_file = folder / f"{name}.port"
        self._env = {**os.environ, **env, "TRIUMVIR_HEALTH_PORT_FILE": str(self._port_file)}
        self._command = _command(kind, arguments, launcher)
        self._process: asyncio.subprocess.Process | None = None
        self._next_lives: Sequence[Mapping[str, str]] = ()
        self._exits_before = 0
        self._watching: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self, *lives: Mapping[str, str]) -> None:
        """Start it. ``lives``: what is added to the environment of its first life, its second, and so on."""
        once, self._next_lives = (lives[0], lives[1:]) if lives else ({}, ())
        self._port_file.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, cwd=ROOT, env={**self._env, **once}, stdin=asyncio.subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._watching = asyncio.create_task(self._watch(self._process), name=f"watch {self.name}")

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        self.exits.append(await process.wait())
        if self.restarting:
            await self.start(*self._next_lives)

    def send(self, number: signal.Signals) -> None:
        """SIGSTOP and SIGCONT, SIGTERM, SIGKILL. It is started again after it ended."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(number)

    async def ready(self, within: float = 90.0) -> None:
        await eventually_true(self._is_ready, within=within, what=f"readiness of {self.name} ({self.log})")

    async def restart(self, *lives: Mapping[str, str], number: signal.Signals = signal.SIGTERM) -> None:
        """End it with this signal and start it again (see :meth:`start`); returns as soon as it is started."""
        await self.stop(number)
        self.restarting = True
        self._exits_before = len(self.exits)
        await self.start(*lives)

    async def stop(self, number: signal.Signals = signal.SIGTERM, within: float = 60.0) -> int:
        """End it for good; SIGKILL when it does not. Its exit code."""
        self.restarting = False
        assert self._process is not None
        assert self._watching is not None
        self.send(signal.SIGCONT)
        self.send(number)
        try:
            async with asyncio.timeout(within):
                await asyncio.shield(self._watching)
        except TimeoutError:
            self.send(signal.SIGKILL)
            await self._watching
        return self.exits[-1]

    async def dies(self, code: int = 137, *, times: int = 1, within: float = 90.0) -> bool:
        """Whether it ends so often with this code, since it was last restarted on purpose."""
        before = self._exits_before
        try:
            await eventually(lambda: self.exits[before:].count(code) >= times, within=within)
        except AssertionError:
            return False
        return True

    async def _is_ready(self) -> bool:
        port = self._port_file.read_text().strip() if self._port_file.exists() else ""
        if not port:
            return False
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session,
                session.get(f"http://127.0.0.1:{port}/readyz") as response,
            ):
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False


def _command(kind: str, arguments: Sequence[str], launcher: str | None) -> list[str]:
    if launcher is not None:
        return [sys.executable, "-m", launcher, kind, *arguments]
    return [sys.executable, "-c", f"from triumvir_{kind}.main import main; main({list(arguments)!r})"]
