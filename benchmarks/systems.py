"""The two systems that are compared, each with its processes and the client that drives it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg
import orjson

from benchmarks import ceiling, processes
from benchmarks.driver import Driver, Submission
from benchmarks.processes import SERVICES, Process
from benchmarks.sample import PAYLOAD, workflow
from triumvir.broker import (
    ORDERS_EXCHANGE,
    OutMessage,
    agent_topology,
    client_topology,
    connect,
    core_topology,
    declare,
    status_queue,
)
from triumvir.contracts.messages import OrderSubmit
from triumvir.contracts.names import order_key, submission_id
from triumvir.local import PrivateServers
from triumvir.local.broker_files import USER
from triumvir.settings import Settings
from triumvir.store.migrate import migrate
from triumvir.store.statements import statement

SUITE: Final = "triumvir"
RAW: Final = "raw aio-pika"
RAW_VHOST: Final = "raw"


@dataclass(frozen=True)
class System:
    """What is driven and measured. ``pids``: everything whose CPU counts, by name."""

    name: str
    driver: Driver
    pids: Mapping[str, int]
    vhost: str


@asynccontextmanager
async def suite(
    servers: PrivateServers, folder: Path, profile: Path | None = None, *, each: int = 1
) -> AsyncIterator[System]:
    """All four services, ``each`` processes of every one: default settings and durability, but for as many requests
    at once in an agent as the ceiling's has.
    """
    settings = await prepared(servers)
    pids = {"broker": servers.broker.pid, "postgres": servers.database.pid}
    started = [
        processes.start_service(name, folder, settings, profile, number)
        for name in SERVICES
        for number in range(1, each + 1)
    ]
    try:
        await _await_ready(started)
        pids |= {process.name: process.pid for process in started}
        async with suite_driver(servers.broker.url) as driver:
            yield System(SUITE, driver, pids, "/")
    finally:
        await asyncio.to_thread(processes.end_all, started)


async def prepared(servers: PrivateServers) -> dict[str, str]:
    """Makes schema, workflow and queues; the settings of the services, as in the environment."""
    await _prepare_database(servers.database.url)
    await _prepare_broker(servers.broker.url)
    return servers.env() | {"TRIUMVIR_SLOTS": str(ceiling.PREFETCH)}


def suite_driver(url: str) -> AbstractAsyncContextManager[Driver]:
    """The client of the suite."""
    return _driver(url, status_queue(USER), _order)


@asynccontextmanager
async def raw(servers: PrivateServers, folder: Path) -> AsyncIterator[System]:
    """The ceiling: two bare aio-pika processes in a vhost of their own."""
    await asyncio.to_thread(servers.broker.ctl, "add_vhost", RAW_VHOST)
    await asyncio.to_thread(servers.broker.ctl, "set_permissions", "-p", RAW_VHOST, USER, ".*", ".*", ".*")
    url = f"{servers.broker.url}{RAW_VHOST}"
    started = [processes.start_raw(role, folder, url) for role in ceiling.ROLES]
    try:
        await _await_ready(started)
        pids = {"broker": servers.broker.pid, **{process.name: process.pid for process in started}}
        async with _driver(url, ceiling.STATUSES, _raw_order) as driver:
            yield System(RAW, driver, pids, RAW_VHOST)
    finally:
        await asyncio.to_thread(processes.end_all, started)


async def _await_ready(started: list[Process]) -> None:
    for process in started:
        await asyncio.to_thread(process.await_ready)


async def _prepare_database(url: str) -> None:
    settings = Settings(database_url=url)
    await migrate(url, settings.database_schema)
    connection = await asyncpg.connect(url, server_settings={"search_path": settings.database_schema})
    try:
        await statement("insert_workflow").rows(
            connection,
            name=workflow.name,
            version=workflow.version,
            definition=workflow.to_json(),
            digest=workflow.digest(),
        )
    finally:
        await connection.close()


async def _prepare_broker(url: str) -> None:
    connection = await connect(url, "benchmark preparation")
    try:
        steps = agent_topology(workflow.steps[0].agent)
        await declare(connection, core_topology() + steps + client_topology(USER))
    finally:
        await connection.close()


@asynccontextmanager
async def _driver(url: str, queue: str, submission: Submission) -> AsyncIterator[Driver]:
    publishing = await connect(url, "benchmark client, publishing")
    consuming = await connect(url, "benchmark client, statuses")
    driver = Driver(publishing, consuming, queue, submission)
    try:
        await driver.open()
        yield driver
    finally:
        await driver.close()
        await asyncio.gather(publishing.close(), consuming.close())


def _order(order_id: str) -> OutMessage:
    return OutMessage(
        exchange=ORDERS_EXCHANGE,
        routing_key="",
        message_id=submission_id(USER, order_id),
        type=OrderSubmit.TYPE,
        correlation_id=order_key(USER, order_id),
        body=orjson.dumps({"order_id": order_id, "workflow": workflow.name, "payload": PAYLOAD}),
        reply_to=status_queue(USER),
        user_id=USER,
    )


def _raw_order(order_id: str) -> OutMessage:
    body = orjson.dumps({"order_id": order_id, "payload": PAYLOAD})
    return OutMessage("", ceiling.ORDERS, order_id, "raw", order_id, body)
