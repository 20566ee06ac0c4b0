"""``triumvir dev``: everything on this machine."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from triumvir import settings as settings_module
from triumvir.cli import clients, workflows
from triumvir.cli.equipment import settings
from triumvir.cli.loading import load_workflows
from triumvir.cli.output import note, run, say
from triumvir.local import PrivateServers
from triumvir.local.services import ServiceProcess
from triumvir.settings import Settings
from triumvir.store.migrate import migrate
from triumvir.workflow import Workflow

_ALWAYS: Final = ("submitter", "scheduler", "supervisor")
_EXPORTS: Final = "environment.sh"


def dev(
    agents: Annotated[
        list[str] | None,
        typer.Argument(metavar="AGENT", help="module:name of each agent to run, all in one process."),
    ] = None,
    workflow: Annotated[
        list[str] | None,
        typer.Option(
            "--workflow",
            "-w",
            metavar="TARGET",
            help="FILE.yaml, FILE.py or module:name to apply; may be repeated.",
        ),
    ] = None,
    client: Annotated[str, typer.Option(help="The client to add.")] = "dev",
    folder: Annotated[
        Path | None, typer.Option(help="Keep servers' data and logs here; without it they are thrown away.")
    ] = None,
) -> None:
    """Run everything on this machine until Ctrl-C.

    That is a private RabbitMQ and Postgres and all four services, with a client added. Ports, passwords and data
    are its own; nothing else on the machine is touched. A service that ends is started again, and said so.

    \b
    Example:
      triumvir dev -w shop.workflow:order_fulfilment shop.agents:payments shop.agents:shipping
    """
    settings()
    for problem in settings_module.unknown_variables():
        note(problem)
    definitions = [each for target in workflow or [] for each in load_workflows(target)]
    servers = PrivateServers(folder)
    run(_dev(servers, agents or [], definitions, client))


async def _dev(servers: PrivateServers, agents: list[str], definitions: list[Workflow], client: str) -> None:
    end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    note("starting RabbitMQ and Postgres")
    async with servers:
        if end.is_set():
            return
        loaded = settings_module.load(
            broker_url=servers.broker.url,
            management_url=servers.broker.management_url,
            database_url=servers.database.url,
            orders_dsn=None,
        )
        url = await _prepare(loaded, definitions, client)
        async with _services(servers, agents) as running:
            _tell(servers, url, agents)
            await _until(end, running)
            note("ending")


async def _prepare(settings: Settings, definitions: list[Workflow], client: str) -> str:
    await migrate(settings.database_url, settings.database_schema)
    for line in await workflows.apply(settings, definitions):
        say(f"workflow    {line}")
    return await clients.renew(settings, client)


@asynccontextmanager
async def _services(servers: PrivateServers, agents: list[str]) -> AsyncIterator[list[ServiceProcess]]:
    commands = {name: [name] for name in _ALWAYS}
    if agents:
        commands["agent"] = ["agent", *agents]
    running: list[ServiceProcess] = []
    try:
        for name, arguments in commands.items():
            running.append(ServiceProcess(name, arguments, servers.folder, servers.env()))
        note(f"starting {', '.join(commands)}")
        for service in running:
            await service.ready()
        yield running
    finally:
        await asyncio.gather(*(service.stop() for service in running))


async def _until(end: asyncio.Event, running: list[ServiceProcess]) -> None:
    """Until Ctrl-C; services that end are started again. Raises ConfigurationError if one refuses its settings."""
    stopping = asyncio.create_task(end.wait())
    keepers = [asyncio.create_task(service.keep_running(note)) for service in running]
    try:
        await asyncio.wait([stopping, *keepers], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (stopping, *keepers):
            task.cancel()
        outcomes = await asyncio.gather(stopping, *keepers, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


def _tell(servers: PrivateServers, url: str, agents: list[str]) -> None:
    exports = {**servers.env(), "TRIUMVIR_CLIENT_URL": url}
    file = servers.folder / _EXPORTS
    file.touch(mode=0o600)
    file.write_text("".join(f"export {name}='{value}'\n" for name, value in exports.items()))
    say(f"broker      {servers.broker.url}")
    say(f"management  {servers.broker.management_url}")
    say(f"database    {servers.database.url}")
    say(f"client      {url}")
    say(f"agents      {', '.join(agents) or 'none (give them as module:name)'}")
    say(f"logs        {servers.folder}/*.log")
    say(f"\nIn another shell:\n  source {file}\n  triumvir submit orders.ndjson --workflow NAME --follow\n")
    note("ready; Ctrl-C ends it")
