"""Runs specimens of a service as processes of their own and reads their logs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

SPECIMEN = Path(__file__).with_name("specimen.py")
DEADLINE_SECONDS = 60.0


class Specimen:
    """One running specimen. ``lines`` are the log lines read so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.lines: list[dict[str, Any]] = []

    @property
    def said(self) -> list[str]:
        """The events of the lines, in order."""
        return [line["event"] for line in self.lines]

    def line(self, event: str) -> dict[str, Any]:
        """The first line of ``event`` among those read."""
        return next(line for line in self.lines if line["event"] == event)

    async def until(self, event: str) -> dict[str, Any]:
        """Read on until a line of ``event`` comes."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while (line := await self._next()) is not None:
                if line["event"] == event:
                    return line
        raise AssertionError(f"ended without {event}: {self.said}")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def exit_code(self) -> int:
        """Read to the end and wait for it."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while await self._next() is not None:
                pass
            return await self._process.wait()

    async def get(self, path: str) -> tuple[int, str]:
        """Status and body of a page of its health server."""
        url = f"http://127.0.0.1:{self.line('health_listening')['port']}{path}"
        timeout = aiohttp.ClientTimeout(total=10)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
            return answer.status, await answer.text()

    async def _next(self) -> dict[str, Any] | None:
        assert self._process.stderr is not None
        text = await self._process.stderr.readline()
        if not text:
            return None
        line: dict[str, Any] = json.loads(text)
        self.lines.append(line)
        return line

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


Start = Callable[..., Awaitable[Specimen]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """``await start(KIND, SETTING=value, …)``; what still runs at the end is killed."""
    async with AsyncExitStack() as running:

        async def start_one(kind: str, **settings: object) -> Specimen:
            environment = {
                "PATH": os.environ.get("PATH", ""),
                **{f"TRIUMVIR_{name.upper()}": str(value) for name, value in settings.items()},
            }
            process = await asyncio.create_subprocess_exec(
                sys.executable, str(SPECIMEN), kind, env=environment, stderr=asyncio.subprocess.PIPE
            )
            specimen = Specimen(process)
            running.push_async_callback(specimen.kill)
            return specimen

        yield start_one
