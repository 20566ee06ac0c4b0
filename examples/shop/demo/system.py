"""Everything that the demo starts: broker and database, the shop's services, and each Triumvir process on its own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import asyncpg

from shop import bookings
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
READY_SECONDS: Final = 60.0


class System:
    """An ``async with`` starts all of it in ``folder`` and ends all of it. Logs and ledgers stay in the folder."""

    def __init__(self, folder: Path, seed: int, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.seed = seed
        self.servers = PrivateServers(folder / "servers")
        self.services: dict[str, Service] = {}
        self.client_url = ""
        self._say = say
        self._processes: dict[str, Child] = {}
        self._env: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        try:
            self._say("starting a RabbitMQ and a Postgres of its own, and the shop's three HTTP services")
            await self._start_servers()
            await self.triumvir("migrate")
            self._say(f"starting {', '.join(PROCESSES)}")
            async with asyncio.TaskGroup() as starting:
                starting.create_task(self._prepare())
                for name in PROCESSES:
                    starting.create_task(self.start(name))
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._end()

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

    def pid(self, name: str) -> int:
        """Of one of PROCESSES."""
        return self._processes[name].pid

    async def triumvir(self, *arguments: str) -> str:
        """What a command of ``triumvir`` prints. Raises RuntimeError with its complaint if it fails."""
        self._say(f"triumvir {' '.join(arguments)}")
        return await run([TRIUMVIR, *arguments], env=self._env)

    def dead(self) -> list[str]:
        """Processes that ended by themselves; none should."""
        return [child.name for child in self._processes.values() if not child.is_running]

    async def stop_processes(self) -> list[str]:
        """SIGTERM to the Triumvir processes; those that did not end in order."""
        children = list(self._processes.values())
        in_order = await asyncio.gather(*(child.stop() for child in children))
        return [child.name for child, well in zip(children, in_order, strict=True) if not well]

    async def _start_servers(self) -> None:
        async with asyncio.TaskGroup() as starting:
            starting.create_task(_to_the_end(self.servers.start))
            for name in SERVICES:
                starting.create_task(self._start_service(name))
        self._env |= self.servers.env()

    async def _start_service(self, name: str) -> None:
        self.services[name] = await start_service(name, folder=self.folder, seed=self.seed)
        self._env[f"SHOP_{name.upper()}_URL"] = self.services[name].url

    async def _prepare(self) -> None:
        async with asyncio.TaskGroup() as preparing:
            preparing.create_task(self._create_bookings())
            preparing.create_task(self.triumvir("workflows", "apply", "shop.workflow:order_fulfilment"))
            adding = preparing.create_task(self.triumvir("clients", "add", CLIENT, "--json"))
        added: dict[str, Any] = json.loads(adding.result())
        self.client_url = added["url"]

    async def _create_bookings(self) -> None:
        """The shop's own table, beside those of Triumvir."""
        connection = await asyncpg.connect(self.servers.database.url)
        try:
            await bookings.create_table(connection)
        finally:
            await connection.close()

    async def _end(self) -> None:
        """Ends what runs. Its data is thrown away, so nothing has to be put in order."""
        children = [*self._processes.values(), *self.services.values()]
        await asyncio.gather(*(child.kill() for child in children))
        await asyncio.to_thread(self.servers.broker.kill)
        await asyncio.to_thread(self.servers.database.stop, "immediate")


async def _to_the_end(blocking: Callable[[], None]) -> None:
    """Runs it in a thread and returns, or is cancelled, only once it is over: nothing starts behind our back."""
    task = asyncio.create_task(asyncio.to_thread(blocking))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def _until_ready(child: Child, port_file: Path) -> None:
    """Asks the process until it says that it is ready. Raises RuntimeError if it ends, or takes over a minute."""
    try:
        async with asyncio.timeout(READY_SECONDS), aiohttp.ClientSession() as session:
            while not await _is_ready(session, _port(port_file)):
                if not child.is_running:
                    raise RuntimeError(f"{child.name} ended at its start:\n{child.complaint()}")
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise RuntimeError(
            f"{child.name} is not ready after {READY_SECONDS:.0f} s:\n{child.complaint()}"
        ) from None


def _port(port_file: Path) -> int:
    """Where the process listens; 0 while it does not say so."""
    return int(port_file.read_text() or 0) if port_file.exists() else 0


async def _is_ready(session: aiohttp.ClientSession, port: int) -> bool:
    if port == 0:
        return False
    try:
        async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False
