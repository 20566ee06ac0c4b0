"""A remote service outside of everything: dedupes by idempotency key, keeps a ledger in a file of its own.

It runs in the test's process, so no fault that hits services or servers touches it, and a test can act in the
middle of a call. How it behaves is asked for by the order's payload: ``{"ask": {"charge": {"fail": "permanent"}}}``.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from triumvir.contracts.names import Direction
from triumvir.testing import Call, Effect

Hook = Callable[[Call], Awaitable[None]]


async def nothing(call: Call) -> None:
    """The hook of a test that does not interfere."""


class Downstream:
    """``before`` and ``after`` are awaited around each effect; ``drop_reply`` says whose answer gets lost."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self._path = path
        self._answered: set[str] = set()
        self._net: Counter[tuple[str, str]] = Counter()
        self._tries: Counter[str] = Counter()
        self._runner: web.AppRunner | None = None
        self.before: Hook = nothing
        self.after: Hook = nothing
        self.drop_reply: Callable[[Call], bool] = lambda call: False
        self.url = ""

    async def start(self) -> None:
        application = web.Application()
        application.router.add_post("/{direction}/{step}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        os.close(self._file)

    def calls(self) -> list[Call]:
        """Every call that arrived, in order."""
        return [Call(*entry[2:]) for entry in self.entries() if entry[0] == "call"]

    def effects(self) -> list[tuple[float, Effect]]:
        """Every effect that happened, with its time (seconds since 1970)."""
        return [(entry[1], Effect(*entry[2:])) for entry in self.entries() if entry[0] == "effect"]

    def entries(self) -> list[list[Any]]:
        """Each ``call`` and ``effect``, its time, and what it is made of, the order first."""
        return [json.loads(line) for line in self._path.read_text().splitlines()]

    def _write(self, kind: str, *fields: Any) -> None:
        os.write(self._file, (json.dumps([kind, time.time(), *fields]) + "\n").encode())

    async def _serve(self, request: web.Request) -> web.Response:
        body = await request.json()
        direction: Direction = "undo" if request.match_info["direction"] == "undo" else "do"
        call = Call(body["order"], request.match_info["step"], direction, body["key"], body["fence"])
        self._write("call", call.order, call.step, call.direction, call.key, call.fence)
        self._tries[call.key] += 1
        asked = body["ask"].get(call.step if direction == "do" else f"undo {call.step}", {})
        refusal = self._refusal(call, asked)
        if refusal is not None:
            return refusal
        await self.before(call)
        if "slow" in asked:
            await _pass_time(asked["slow"])
        if body["applies"]:
            self._apply(call)
        await self.after(call)
        if self.drop_reply(call) or self._tries[call.key] <= asked.get("drop", 0):
            _cut(request)
        return web.json_response({"key": call.key}, headers={"Tries": str(self._tries[call.key])})

    def _refusal(self, call: Call, asked: dict[str, Any]) -> web.Response | None:
        if asked.get("fail") == "permanent":
            return web.json_response({"refused": "as asked for"}, status=422)
        if asked.get("fail") == "transient" and self._tries[call.key] <= asked["times"]:
            return web.json_response({"refused": "as asked for"}, status=503)
        return None

    def _apply(self, call: Call) -> None:
        """The effect, once per key. An undo of what never happened is accepted and does nothing."""
        if call.key in self._answered:
            return
        self._answered.add(call.key)
        if call.direction == "undo" and self._net[call.order, call.step] == 0:
            return
        self._net[call.order, call.step] += 1 if call.direction == "do" else -1
        self._write("effect", call.order, call.step, call.direction, call.key)


async def _pass_time(seconds: float) -> None:
    """Work that takes so long."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, done.set)
    await done.wait()


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
