"""``/livez``, ``/readyz`` and ``/metrics``. The JSON says what is wrong, not only that something is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import orjson
from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from triumvir.runtime.watchdog import Watchdog
from triumvir.settings import Settings
from triumvir.telemetry import events, export
from triumvir.telemetry.logs import get_logger, redact

CHECK_SECONDS: Final = 2.0

Check = Callable[[], Awaitable[str | None]]
"""A readiness check: None when ready, else what is wrong in a few words; raising means not ready."""

log = get_logger(__name__)


class Health:
    """The health server of one process; ready when :attr:`started` and no registered check finds a fault."""

    def __init__(self, settings: Settings, watchdog: Watchdog, service: str, instance: str) -> None:
        self._settings = settings
        self._watchdog = watchdog
        self._identity = {"service": service, "instance": instance}
        self._checks: dict[str, Check] = {}
        self._runner: web.AppRunner | None = None
        self.started = False
        self.draining = False
        self.port = 0

    def add_readiness(self, name: str, check: Check) -> None:
        """Not ready while ``check`` says so; it gets two seconds."""
        self._checks[name] = check

    async def start(self) -> None:
        """Listen; the port that was chosen is logged and, when asked for, written to ``health_port_file``."""
        app = web.Application()
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._settings.health_host, self._settings.health_port).start()
        self.port = self._runner.addresses[0][1]
        log.info(events.HEALTH_LISTENING, host=self._settings.health_host, port=self.port)
        if self._settings.health_port_file is not None:
            _write_whole(Path(self._settings.health_port_file), f"{self.port}\n")

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def readiness(self) -> dict[str, str]:
        """What is not ready, by name; empty when all is."""
        if self.draining:
            return {"service": "draining"}
        if not self.started:
            return {"service": "starting"}
        checks = dict(self._checks)  # more may be added while these are asked
        faults = await asyncio.gather(*(_ask(check) for check in checks.values()))
        return {name: fault for name, fault in zip(checks, faults, strict=True) if fault is not None}

    async def _livez(self, _: web.Request) -> web.Response:
        faults = {name: f"no progress for {seconds} s" for name, seconds in self._watchdog.stalled().items()}
        return self._answer(faults, stalled_seconds=self._watchdog.progress())

    async def _readyz(self, _: web.Request) -> web.Response:
        return self._answer(await self.readiness())

    async def _metrics(self, _: web.Request) -> web.Response:
        text = await asyncio.to_thread(export.exposition)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    def _answer(self, faults: dict[str, str], **more: object) -> web.Response:
        body = {"ok": not faults, **self._identity, "faults": faults, **more}
        return web.Response(
            body=orjson.dumps(body), status=503 if faults else 200, content_type="application/json"
        )


async def _ask(check: Check) -> str | None:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check()
    except TimeoutError:
        return f"no answer in {CHECK_SECONDS} s"
    except Exception as error:  # noqa: BLE001 - whatever a check raises means: not ready
        return redact(f"{type(error).__name__}: {error}")


def _write_whole(path: Path, text: str) -> None:
    """Whoever reads the file sees all of it or nothing."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="ascii")
    partial.replace(path)
