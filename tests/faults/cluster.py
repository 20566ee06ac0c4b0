"""Everything that runs in a fault test: services that restart, a client with a load, a downstream, the auditor."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.parse
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import asyncpg

from tests.faults.agents import BOOKINGS, TRADE
from tests.faults.downstream import Downstream
from tests.faults.load import Load
from tests.faults.service_process import ServiceProcess
from tests.waiting import eventually_true
from triumvir.broker import (
    ALERTS,
    Consumer,
    agent_topology,
    client_topology,
    connect,
    core_topology,
    declare,
)
from triumvir.broker.admin import BrokerAdmin
from triumvir.client import Client
from triumvir.contracts.names import order_key
from triumvir.settings import Settings
from triumvir.store.operators import apply_workflow
from triumvir.telemetry import events
from triumvir.testing import Effect, Finding, Ledger, audit, describe

SHORT = {
    "step_timeout": "3",
    "retry_interval": "0.6",
    "max_retries": "2",
    "max_failures": "3",
    "reopen_backoff": "0.2",
    "reopen_backoff_max": "1",
    "calls_per_request": "2",
    "call_backoff": "0.05",
    "instance_lease": "3",
    "instance_renewal": "1",
    "poll_interval": "0.2",
    "outbox_lease": "2",
    "supervisor_interval": "0.2",
    "supervisor_grace": "0.2",
    "publish_timeout": "3",
    "drain_timeout": "10",
}
"""So short that a fault is recovered from in seconds."""
AGENTS = ("tests.faults.agents:goods", "tests.faults.agents:money")
STRAIGHT = ("submitter", "scheduler", "agent", "supervisor")
CLIENT_PASSWORD = "faults"


class Cluster:
    """``async with Cluster(settings, folder) as cluster: await cluster.start()``. ``settings`` name its servers."""

    def __init__(self, settings: Settings, folder: Path, *, seed: int = 1, **short: str) -> None:
        overrides = {**SHORT, **short}
        self.settings = Settings(**{**settings.model_dump(), **overrides})
        self.folder = folder
        self.seed = seed
        self.services: dict[str, ServiceProcess] = {}
        self.alerts: set[str] = set()
        self.downstream = Downstream(folder / "ledger.jsonl")
        self.crash_log = folder / "crashes.log"
        self.expected_exits = {0, 137, -signal.SIGKILL}
        self._overrides = overrides
        self._stack = AsyncExitStack()
        self._alerting: asyncio.Task[None] | None = None
        self.client_url = ""
        self.client: Client
        self.load: Load
        self.database: asyncpg.Connection

    def tune(self, **settings: str) -> None:
        """Other settings for services that are not started yet."""
        self._overrides |= settings
        self.settings = Settings(**{**self.settings.model_dump(), **self._overrides})

    @property
    def vhost(self) -> str:
        return urllib.parse.unquote(urllib.parse.urlsplit(self.settings.broker_url).path.removeprefix("/"))

    @property
    def env(self) -> dict[str, str]:
        """The environment of every service."""
        settings = {f"TRIUMVIR_{name.upper()}": value for name, value in self._overrides.items()}
        elsewhere = {"TRIUMVIR_ORDERS_DSN": self.settings.orders_dsn} if self.settings.orders_dsn else {}
        return (
            settings
            | elsewhere
            | {
                "TRIUMVIR_BROKER_URL": self.settings.broker_url,
                "TRIUMVIR_MANAGEMENT_URL": self.settings.management_url,
                "TRIUMVIR_DATABASE_URL": self.settings.database_url,
                "TRIUMVIR_DATABASE_SCHEMA": self.settings.database_schema,
                "TRIUMVIR_QUORUM_QUEUES": str(self.settings.quorum_queues),
                "TRIUMVIR_CRASH_LOG": str(self.crash_log),
                "FAULTS_DOWNSTREAM": self.downstream.url,
            }
        )

    async def __aenter__(self) -> Self:
        try:
            await self._set_up()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        ending = (service.stop(signal.SIGKILL) for service in self.services.values())
        await asyncio.gather(*ending, return_exceptions=True)
        await self._stack.aclose()

    async def _set_up(self) -> None:
        await self.downstream.start()
        self._stack.push_async_callback(self.downstream.stop)
        await self.reconnect()
        await self.database.execute(BOOKINGS)
        await apply_workflow(self.database, TRADE)
        await self._declare()
        self.client_url = await self._add_client()
        self.client = await self._stack.enter_async_context(Client(self.client_url))
        self.load = Load(self.client, self.seed)
        await self.load.start()
        self._stack.push_async_callback(self.load.stop)

    async def reconnect(self) -> None:
        """Open ``database``, the test's own connection: at first, and after the server was restarted."""
        self.database = await asyncpg.connect(
            self.settings.database_url, server_settings={"search_path": self.settings.database_schema}
        )
        self._stack.push_async_callback(self.database.close, timeout=5)

    async def _declare(self) -> None:
        quorum = self.settings.quorum_queues
        self.client_name = f"shop-{os.urandom(4).hex()}"
        connection = await connect(self.settings.broker_url, "fault test")
        self._stack.push_async_callback(connection.close)
        await declare(
            connection,
            core_topology(quorum=quorum)
            + agent_topology("goods", quorum=quorum)
            + agent_topology("money", quorum=quorum)
            + client_topology(self.client_name, quorum=quorum),
        )
        consumer = Consumer(connection, ALERTS, 100)
        await consumer.start()
        self._alerting = asyncio.create_task(self._collect_alerts(consumer), name="alerts")
        self._stack.push_async_callback(self._stop_alerts, consumer)

    async def _collect_alerts(self, consumer: Consumer) -> None:
        while True:
            deliveries = await consumer.batch(100)
            self.alerts |= {json.loads(delivery.body).get("order") or "" for delivery in deliveries}
            await consumer.settle(deliveries)
            await asyncio.sleep(0)

    async def _stop_alerts(self, consumer: Consumer) -> None:
        if self._alerting is not None:
            self._alerting.cancel()
        await consumer.close()

    async def _add_client(self) -> str:
        async with BrokerAdmin(self.settings.management_url) as admin:
            await admin.add_client(self.vhost, self.client_name, CLIENT_PASSWORD)
        place = urllib.parse.urlsplit(self.settings.broker_url)
        account = f"{self.client_name}:{CLIENT_PASSWORD}"
        return place._replace(netloc=f"{account}@{place.hostname}:{place.port}").geturl()

    async def start(self, *kinds: str, launcher: str | None = None, **env: str) -> None:
        """Start these services, one of each kind if none are named, and return once they are ready."""
        started = [await self.add(kind, launcher=launcher, **env) for kind in kinds or STRAIGHT]
        await asyncio.gather(*(service.ready() for service in started))

    async def add(
        self, kind: str, name: str | None = None, *, launcher: str | None = None, **env: str
    ) -> ServiceProcess:
        """Start one more service; ``env`` is added to its environment in all its lives."""
        name = name or kind
        arguments: Sequence[str] = AGENTS if kind == "agent" else ()
        service = ServiceProcess(kind, name, self.folder, {**self.env, **env}, arguments, launcher)
        self.services[name] = service
        await service.start()
        return service

    async def arm(self, name: str, point: str, *counts: int) -> ServiceProcess:
        """Start this service again, to die when it reaches the crash point for the n-th time; the next number is
        for its next life, and so on; after that it lives unarmed.
        """
        service = self.services[name]
        await service.restart(*({"TRIUMVIR_CRASH_AT": f"{point}:{n}"} for n in counts))
        return service

    def crashes(self, point: str) -> int:
        """How often a process died there."""
        text = self.crash_log.read_text() if self.crash_log.exists() else ""
        return sum(line.split()[0] == point for line in text.splitlines())

    async def settle(self, within: float = 120.0, lost_after: float = 20.0) -> bool:
        """Once nothing moves; False if something still does after ``within`` seconds.

        Accepted orders that do not appear count as lost when nothing has moved for ``lost_after`` seconds.
        """
        loop = asyncio.get_running_loop()
        seen: Any = None
        since = loop.time()

        async def is_quiet() -> bool:
            nonlocal seen, since
            now = await self._moving()
            if now != seen:
                seen, since = now, loop.time()
            calm = loop.time() - since
            live, orders = now[0], now[1]
            return live == 0 and calm > (0.5 if orders >= len(self.load.accepted) else lost_after)

        try:
            await eventually_true(is_quiet, within=within)
        except AssertionError:
            return False
        return True

    async def _moving(self) -> tuple[int, int, int]:
        """What is unfinished, how many orders there are, how much history they have."""
        (row,) = await self.database.fetch(
            "select (select count(*) from orders where state in ('pending', 'processing', 'compensating'))"
            " + (select count(*) from inbox where reply_due is not null)"
            " + (select count(*) from outbox) + (select count(*) from commands where taken_at is null)"
            " + (select count(*) from dead_letters where replay_asked_at is not null) as live,"
            " (select count(*) from orders) as orders, (select coalesce(sum(history), 0) from orders) as history"
        )
        return row["live"], row["orders"], int(row["history"])

    async def ledger(self) -> Ledger:
        """Effects of the downstream and of the agents' own transactions, in the order of their times."""
        rows = await self.database.fetch("select * from public.bookings")
        booked = [
            (row["at"].timestamp(), Effect(row["order_key"], row["step"], row["direction"], row["key"]))
            for row in rows
        ]
        effects = sorted([*self.downstream.effects(), *booked], key=lambda entry: entry[0])
        return Ledger([effect for _, effect in effects], self.downstream.calls())

    async def findings(self, *, within: float = 120.0, expected_dead: Sequence[str] = ()) -> list[Finding]:
        """Wait for quiet, then audit."""
        await self.settle(within)
        return await audit(
            self.settings,
            ledger=await self.ledger(),
            statuses=self.load.received,
            accepted=self.load.accepted,
            alerts=self.alerts,
            expected_dead=expected_dead,
        )

    async def assert_sound(
        self, *, within: float = 120.0, ends: bool = True, expected_dead: Sequence[str] = ()
    ) -> None:
        """The auditor finds nothing; orders ended as their kind must (``ends``); no service fell ill."""
        findings = await self.findings(within=within, expected_dead=expected_dead)
        assert not findings, f"{describe(findings)}\nlogs and ledger: {self.folder}"
        illnesses = self.illnesses()
        assert not illnesses, illnesses
        unfollowed = self.unfollowed()
        assert not unfollowed, unfollowed
        if ends:
            wrong = await self.wrong_ends()
            assert not wrong, f"{wrong}\nlogs and ledger: {self.folder}"

    async def states(self) -> dict[str, str]:
        """Every order's state, by ``client/order_id``."""
        rows = await self.database.fetch("select client, order_id, state from orders")
        return {order_key(row["client"], row["order_id"]): row["state"] for row in rows}

    async def wrong_ends(self) -> list[str]:
        states = await self.states()
        return [
            f"{key}: {states[key]}" for key, kind in self.load.kinds.items() if states[key] not in kind.ends
        ]

    def illnesses(self) -> list[str]:
        """Exits that nobody asked for, and decisions that raised."""
        exits = {name: Counter(service.exits) for name, service in self.services.items()}
        wrong = [f"{name}: exits {dict(c)}" for name, c in exits.items() if set(c) - self.expected_exits]
        raised = [
            f"{service.log}: {line[:300]}"
            for service in self.services.values()
            for line in service.log.read_text().splitlines()
            if f'"{events.DECISION_FAILED}"' in line
        ]
        return wrong + raised

    def unfollowed(self) -> list[str]:
        """Orders of which the client library did not give every status in order, each once."""
        told = {
            key: [status.sequence for status in statuses if status.sequence]
            for key, statuses in self.load.followed.items()
        }
        return [
            f"{key}: {numbers}"
            for key, numbers in told.items()
            if numbers != list(range(1, len(numbers) + 1))
        ]
