"""What a soak is about: two of each service, broker and database behind proxies, a remote service, and a client."""

from __future__ import annotations

import asyncio
import signal
import urllib.parse
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from tests.faults.agents import CHOOSY, TRADE
from tests.faults.broker.test_broker_faults import write_down
from tests.faults.cluster import Cluster
from tests.faults.commit_proxy import CommitProxy
from tests.faults.test_f22_lost_commit_replies import SINGLE
from tests.integration.broker.proxy import Proxy, proxied
from tests.integration.supervision.conftest import DatabaseProxy
from tests.servers import SCHEMA, ServerSet
from tests.soak.orders import Orders
from tests.soak.remote import Remote
from tests.soak.schedule import CUT_OFF, SERVICES
from triumvir.local import PrivateServers
from triumvir.runtime.service import EXIT_FAILED
from triumvir.settings import Settings
from triumvir.store.migrate import migrate
from triumvir.store.operators import apply_workflow
from triumvir.telemetry.logs import configure

HALTING: Final = replace(TRADE, name="halting", on_error="halt")
"""Its orders rest where they fail, until an operator moves them."""
NAME: Final = "soak"
UNHURRIED: Final = {
    "step_timeout": "8",
    "retry_interval": "2",
    "poll_interval": "0.5",
    "supervisor_interval": "0.5",
    "supervisor_grace": "0.5",
}
"""Eight processes that start again and again on two cores: with shorter deadlines all they did would come too late."""


class System:
    """``async with System(folder, seed) as system``: all of it runs, and its logs are in ``folder``."""

    def __init__(self, folder: Path, seed: int, launcher: str = "tests.faults.tap") -> None:
        self.folder = folder
        self.seed = seed
        self.servers = PrivateServers()
        self.turns = {name: asyncio.Lock() for name in SERVICES}
        """Whoever strikes a service has its lock for so long."""
        self.over = asyncio.Event()
        """No more faults, no more orders."""
        self._launcher = launcher
        self._stack = AsyncExitStack()
        self.cluster: Cluster
        self.broker: Proxy
        self.commits: CommitProxy
        self.way_of_one: DatabaseProxy
        self.remote: Remote
        self.orders: Orders

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        log = self._stack.enter_context((self.folder / "client.log").open("w"))
        configure(Settings(), "client", NAME, log)
        await self._stack.enter_async_context(self.servers)
        settings = await self._settings()
        self.cluster = await self._stack.enter_async_context(
            Cluster(settings, self.folder, seed=self.seed, **UNHURRIED)
        )
        for workflow in (CHOOSY, HALTING):
            await apply_workflow(self.cluster.database, workflow)
        await asyncio.to_thread(write_down, self.servers.broker)
        told_before_it_could_listen = -signal.SIGTERM
        self.cluster.expected_exits |= {
            told_before_it_could_listen,
            EXIT_FAILED,
        }  # of the latter more in outcome.py
        self.remote = Remote(self.cluster.downstream, self.seed)
        self.orders = Orders(self.cluster.load, self.seed)
        await self._start_proxies(settings.database_url)
        for number, name in enumerate(SERVICES):
            await self.cluster.add(name.split()[1], name, launcher=self._launcher, **self._env(name, number))
        await asyncio.gather(*(service.ready() for service in self.cluster.services.values()))

    async def _settings(self) -> Settings:
        """Everybody reaches the broker by a proxy, the client too. The database itself is for the auditor."""
        servers = ServerSet.of(self.servers)
        await asyncio.to_thread(servers.manage, "PUT", f"vhosts/{NAME}")
        place = urllib.parse.urlsplit(servers.broker_url)._replace(path=f"/{NAME}")
        self.broker = await self._stack.enter_async_context(proxied(place.geturl()))
        database_url = await asyncio.to_thread(self.servers.database.create_database, NAME)
        await migrate(database_url, SCHEMA)
        return Settings(
            broker_url=self.broker.url,
            management_url=servers.management_url,
            database_url=database_url,
            database_schema=SCHEMA,
            orders_dsn=None,
            policy_file=None,
            quorum_queues=False,
        )

    async def _start_proxies(self, database_url: str) -> None:
        self.commits = CommitProxy(database_url, SINGLE)
        await self.commits.start()
        self._stack.push_async_callback(self.commits.stop)
        self.way_of_one = DatabaseProxy(self.commits.url)
        await self.way_of_one.start()
        self._stack.push_async_callback(self.way_of_one.stop)

    def _env(self, name: str, number: int) -> dict[str, str]:
        return {
            "TRIUMVIR_DATABASE_URL": self.way_of_one.url if name == CUT_OFF else self.commits.url,
            "FAULTS_TAP_LOG": str(self.folder / "tap.log"),
            "FAULT_SEED": str(self.seed * len(SERVICES) + number),
        }
