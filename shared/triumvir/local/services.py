"""The services as child processes on this machine, for ``triumvir dev``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from triumvir.errors import ConfigurationError
from triumvir.local.ports import LOOPBACK
from triumvir.local.processes import Child, tail

_POLL_SECONDS: Final = 0.05
_REFUSED: Final = 2
"""The exit code of a service that refuses its settings or arguments: it would refuse them again."""
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
_STEADY_SECONDS: Final = 60.0
"""A service that ran so long before it ended is started again without delay."""


class ServiceProcess:
    """``triumvir run`` with these arguments, its output in ``folder/<name>.log``; ``settings`` are added to ours."""

    def __init__(
        self, name: str, arguments: Sequence[str], folder: Path, settings: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._port_file = folder / f"{name}.port"
        self._command = [sys.executable, "-m", "triumvir.cli", "run", *arguments]
        self._env = {**os.environ, **settings, "TRIUMVIR_HEALTH_PORT_FILE": str(self._port_file)}
        self._child = self._start()

    def _start(self) -> Child:
        self._port_file.unlink(missing_ok=True)
        return Child(self._command, env=self._env, output=self.log, cwd=Path.cwd())

    async def ready(self, *, within: float = 30.0) -> None:
        """Return once it says that it is ready. Raises ConfigurationError with the end of its log if it does not."""
        try:
            async with asyncio.timeout(within):
                while not await asyncio.to_thread(self._is_ready):
                    if self._child.exit_code() is not None:
                        raise ConfigurationError(f"{self.name} ended at its start: {self.last_words()}")
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise ConfigurationError(
                f"{self.name} is not ready after {within:.0f} s: {self.last_words()}"
            ) from None

    async def ended(self) -> int:
        """Return its exit code once it has ended by itself."""
        while (code := self._child.exit_code()) is None:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(_POLL_SECONDS)
        return code

    async def keep_running(self, tell: Callable[[str], None]) -> NoReturn:
        """Start it again whenever it has ended, after a pause that doubles up to half a minute; ``tell`` is told.

        Raises ConfigurationError if it refuses its settings or arguments.
        """
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            how = _ending(await self.ended())
            if self._child.exit_code() == _REFUSED:
                raise ConfigurationError(f"{self.name} {how}: {self.last_words()}")
            if time.monotonic() - began >= _STEADY_SECONDS:
                pause = _FIRST_PAUSE
            tell(f"{self.name} {how}; starting it again in {pause:g} s ({self.log})")
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)
            self._child = self._start()

    def last_words(self) -> str:
        """The latest error in its log, in one line; else its last line."""
        lines = tail(self.log, 20).splitlines()
        return next(
            (words for line in reversed(lines) if (words := _error_in(line))), lines[-1] if lines else ""
        )

    async def stop(self, *, within: float = 25.0) -> None:
        """Have it finish what is in hand; SIGKILL after ``within`` seconds."""
        await asyncio.to_thread(self._child.end, signal.SIGTERM, within=within)

    def _is_ready(self) -> bool:
        if not self._port_file.exists():
            return False
        url = f"http://{LOOPBACK}:{self._port_file.read_text().strip()}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


def _ending(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"


def _error_in(line: str) -> str | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.get("level") not in ("error", "critical"):
        return None
    return ": ".join(str(entry[name]) for name in ("event", "error") if name in entry)
