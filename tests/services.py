"""All four services as child processes on a vhost and a database of their own, for tests that use them as users do."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.house.source import ROOT
from tests.servers import SCHEMA, ServerSet, blocking
from tests.waiting import eventually_blocking
from triumvir.broker import client_topology, connect, core_topology, declare
from triumvir.broker.admin import BrokerAdmin
from triumvir.local import leftovers
from triumvir.local.processes import Child, tail
from triumvir.settings import Settings
from triumvir.store import operators
from triumvir.workflow import Workflow

FAST: Mapping[str, object] = {
    "quorum_queues": False,
    "poll_interval": 0.1,
    "supervisor_interval": 0.1,
    "supervisor_grace": 0.1,
    "step_timeout": 30,
    "retry_interval": 1,
    "reopen_backoff": 0.1,
    "call_backoff": 0.05,
    "max_failures": 1,
    "instance_lease": 8,
    "instance_renewal": 1,
    "outbox_lease": 2,
    "drain_timeout": 10,
}
"""What tests wait for comes soon; what only a slow machine would run into (deadlines, leases) is far away."""

SECRET = "pa:ss/@%"  # needs quoting in a URL


@dataclass(frozen=True)
class Account:
    """A client that was added, and where it connects to."""

    name: str
    url: str


class Service:
    """One running service. Its log is at ``log``."""

    def __init__(self, name: str, child: Child, log: Path, port_file: Path) -> None:
        self.name = name
        self.log = log
        self._child = child
        self._port_file = port_file

    def wait_until_ready(self) -> None:
        """Until ``/readyz`` says so. AssertionError with the end of the log if it ends before."""

        def ready() -> bool:
            assert self._child.exit_code() is None, f"{self.name} ended at its start:\n{tail(self.log, 10)}"
            return self.get("/readyz")[0] == 200

        eventually_blocking(ready, within=90, what=f"readiness of {self.name}")

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a page of its health server; 0 while it does not listen."""
        if not self._port_file.exists():
            return 0, ""
        url = f"http://127.0.0.1:{self._port_file.read_text().strip()}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (OSError, TimeoutError):
            return 0, ""

    def said(self, event: str) -> list[dict[str, Any]]:
        """Its log lines of one event so far."""
        lines = (line for line in self.log.read_text().splitlines() if line.startswith("{"))
        return [line for line in map(json.loads, lines) if line["event"] == event]

    def exit_code(self) -> int | None:
        return self._child.exit_code()

    def send(self, number: signal.Signals) -> None:
        """SIGSTOP and SIGCONT."""
        self._child.send(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it and wait for that; its exit code."""
        return self._child.end(number, within=60)


class Suite:
    """Started services, and what tests need to know of them. Made by :func:`started`."""

    def __init__(self, servers: ServerSet, broker_url: str, database_url: str, folder: Path) -> None:
        self.settings = Settings(
            broker_url=broker_url,
            management_url=servers.management_url,
            database_url=database_url,
            database_schema=SCHEMA,
            quorum_queues=False,
        )
        self.folder = folder
        self.home = ROOT
        self.vhost = urllib.parse.urlsplit(broker_url).path.removeprefix("/")
        self.running: list[Service] = []
        self.alerts: list[dict[str, Any]] = []
        self._accounts: list[str] = []
        self._servers = servers
        self._started = 0

    def start(self, kind: str, *arguments: str, **settings: object) -> Service:
        """Start a service and wait until it is ready. ``settings`` are added to :data:`FAST`."""
        service = self.launch(kind, *arguments, **settings)
        service.wait_until_ready()
        return service

    def launch(self, kind: str, *arguments: str, **settings: object) -> Service:
        """Start a service and do not wait for it."""
        self._started += 1
        name = f"{kind}-{self._started}"
        log, port_file = self.folder / f"{name}.log", self.folder / f"{name}.port"
        code = f"from triumvir_{kind}.main import main; main({list(arguments)!r})"
        env = {**os.environ, **self.environment(settings), "TRIUMVIR_HEALTH_PORT_FILE": str(port_file)}
        service = Service(
            name, Child([sys.executable, "-c", code], env=env, output=log, cwd=self.home), log, port_file
        )
        self.running.append(service)
        return service

    def environment(self, settings: Mapping[str, object]) -> dict[str, str]:
        """What a service of this suite, or a command beside it, has in its environment."""
        own = self.settings.model_dump(
            include={"broker_url", "management_url", "database_url", "database_schema"}
        )
        variables = {
            f"TRIUMVIR_{name.upper()}": str(value) for name, value in {**own, **FAST, **settings}.items()
        }
        return {**variables, "LAB_FOLDER": str(self.folder)}

    def add_client(self, name: str) -> Account:
        """A client as ``triumvir clients add`` makes it; its name is made unique."""
        unique = f"{name}-{secrets.token_hex(4)}"
        place = urllib.parse.urlsplit(self.settings.broker_url)
        secret = urllib.parse.quote(SECRET, safe="")
        url = place._replace(netloc=f"{unique}:{secret}@{place.hostname}:{place.port}").geturl()
        blocking(lambda: self._add_client(unique))
        self._accounts.append(unique)
        return Account(unique, url)

    async def _add_client(self, name: str) -> None:
        connection = await connect(self.settings.broker_url, "test setup")
        await declare(connection, core_topology(quorum=False) + client_topology(name, quorum=False))
        await connection.close()
        async with BrokerAdmin(self.settings.management_url) as admin:
            await admin.add_client(self.vhost, name, SECRET)

    def apply(self, workflows: Sequence[Workflow]) -> None:
        """Register workflows, as ``triumvir workflows apply`` does."""

        async def apply() -> None:
            async with operators.connect(self.settings) as connection:
                for workflow in workflows:
                    await operators.apply_workflow(connection, workflow)

        blocking(apply)

    def close(self) -> None:
        """End all that runs, and remove the clients."""
        for service in self.running:
            if service.exit_code() is None:
                service.stop(signal.SIGKILL)

        async def remove() -> None:
            async with BrokerAdmin(self.settings.management_url) as admin:
                for name in self._accounts:
                    await admin.remove_client(name)

        blocking(remove)


@contextmanager
def started(
    servers: ServerSet, *services: tuple[str, ...], workflows: Sequence[Workflow] = (), **settings: object
) -> Iterator[Suite]:
    """A suite of these services (``("agent", "module:name")``), ready, for as long as the context lasts."""
    folder = leftovers.make_temporary()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        suite = Suite(
            servers, stack.enter_context(servers.vhost()), stack.enter_context(servers.database()), folder
        )
        stack.callback(suite.close)
        suite.apply(workflows)
        # Agents first: a scheduler looks at its start, so that no order is held for an agent it has yet to see.
        for kinds in (("agent",), ("submitter", "scheduler", "supervisor")):
            for kind, *arguments in services:
                if kind in kinds:
                    suite.launch(kind, *arguments, **settings)
            for service in suite.running:
                service.wait_until_ready()
        yield suite
