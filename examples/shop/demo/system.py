"""Everything that the demo starts: broker and database, the shop's services, and each Triumvir process on its own."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Self

import aiohttp

from shop.processes import Child, Service, run, start, start_service
from shop.reconcile import SERVICES
from triumvir.local import PrivateServers

TRIUMVIR: Final = str(Path(sys.executable).with_name("triumvir"))
CLIENT: Final = "shop"
PROCESSES: Final = {
    "submitter": ["submitter"],
    "scheduler": ["scheduler"],
    "supervisor": ["supervisor"],
    "agent-orders": ["agent", "shop.agents:orders"],
    "agent-inventory": ["agent", "shop.agents:inventory"],
    "agent-payments": ["agent", "shop.agents:payments"],
    "agent-shipping": ["agent", "shop.agents:shipping"],
}
READY_SECONDS: Final = 30.0


class System:
    """An ``async with`` starts all of it in ``folder`` and ends all of it. Logs and ledgers stay in the folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.servers = PrivateServers(folder / "servers")
        self.services: dict[str, Service] = {}
        self.client_url = ""
        self._processes: dict[str, Child] = {}
        self._env: dict[str, str] = {}
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._start_servers()
            await self._prepare()
            async with asyncio.TaskGroup() as starting:
                for name in PROCESSES:
                    starting.create_task(self.start(name))
        except BaseException:
            await self._exits.aclose()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._exits.aclose()

    async def start(self, name: str) -> None:
        """Starts one of PROCESSES and waits until it is ready."""
        port_file = self.folder / f"{name}.port"
        port_file.unlink(missing_ok=True)
        env = {**self._env, "TRIUMVIR_HEALTH_PORT_FILE": str(port_file)}
        child = await start(name, [TRIUMVIR, "run", *PROCESSES[name]], folder=self.folder, env=env)
        self._processes[name] = child
        await _until_ready(child, port_file)

    async def kill(self, name: str) -> None:
        """SIGKILL."""
        await self._processes[name].kill()

    async def triumvir(self, *arguments: str) -> str:
        """What a command of ``triumvir`` prints. Raises RuntimeError with its complaint if it fails."""
        return await run([TRIUMVIR, *arguments], env=self._env)

    def dead(self) -> list[str]:
        """Processes that ended by themselves; none should."""
        return [child.name for child in self._processes.values() if not child.is_running]

    async def _start_servers(self) -> None:
        await self._exits.enter_async_context(self.servers)
        self._env = self.servers.env()
        self._exits.push_async_callback(self._end_processes)
        for name in SERVICES:
            self.services[name] = await start_service(name, folder=self.folder, seed=self.seed)
            self._env[f"SHOP_{name.upper()}_URL"] = self.services[name].url

    async def _prepare(self) -> None:
        await self.triumvir("migrate")
        await run([sys.executable, "-m", "shop.bookings"], env=self._env)
        await self.triumvir("workflows", "apply", "shop.workflow:order_fulfilment")
        added: dict[str, Any] = json.loads(await self.triumvir("clients", "add", CLIENT, "--json"))
        self.client_url = added["url"]

    async def _end_processes(self) -> None:
        children = [*self._processes.values(), *self.services.values()]
        await asyncio.gather(*(child.stop() for child in children))


async def _until_ready(child: Child, port_file: Path) -> None:
    """Asks the process until it says that it is ready. Raises RuntimeError if it ends, or takes over 30 seconds."""
    try:
        async with asyncio.timeout(READY_SECONDS), aiohttp.ClientSession() as session:
            while not await _is_ready(session, _port(port_file)):
                if not child.is_running:
                    raise RuntimeError(f"{child.name} ended at its start; see {child.log}")
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise RuntimeError(
            f"{child.name} is not ready after {READY_SECONDS:.0f} s; see {child.log}"
        ) from None


def _port(port_file: Path) -> int:
    """Where the process listens; 0 while it does not say so."""
    return int(port_file.read_text()) if port_file.exists() else 0


async def _is_ready(session: aiohttp.ClientSession, port: int) -> bool:
    if port == 0:
        return False
    try:
        async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False
