"""``triumvir clients``: who may submit orders."""

from __future__ import annotations

import secrets
import urllib.parse
from dataclasses import dataclass
from typing import Annotated

import typer

from triumvir.broker import (
    client_of_status_queue,
    client_topology,
    connect,
    core_topology,
    declare,
    status_queue,
)
from triumvir.broker.admin import BrokerAdmin
from triumvir.cli.equipment import settings
from triumvir.cli.output import NONE, note, run, say, show_rows, write_json
from triumvir.errors import ConfigurationError
from triumvir.settings import Settings

app = typer.Typer(
    help="Who may submit orders: add, list.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@dataclass(frozen=True, slots=True)
class NewClient:
    """What was made. ``password`` and ``url`` are None if the client was there and only got another queue."""

    client: str
    status_queue: str
    password: str | None
    url: str | None


@dataclass(frozen=True, slots=True)
class StatusQueue:
    """``waiting`` statuses, and whether anybody reads them."""

    name: str
    waiting: int
    readers: int


@dataclass(frozen=True, slots=True)
class ListedClient:
    """A client and its status queues."""

    client: str
    queues: list[StatusQueue]
    max_connections: int | None
    max_channels: int | None


@app.command("add")
def add_client(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="a-z, 0-9 and -, at most 40; it is the RabbitMQ user's name, too."
        ),
    ],
    instance: Annotated[
        str | None, typer.Option(help="Make a status queue of its own for one of the client's processes.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Add a client: its RabbitMQ user with permissions, and its status queue.

    The password is shown this once and kept nowhere else. The user may write to the exchange `orders`, read its
    own status queues, and nothing more. Needs TRIUMVIR_BROKER_URL and TRIUMVIR_MANAGEMENT_URL of an administrator.

    \b
    Examples:
      triumvir clients add shop-a
      triumvir clients add shop-a --instance worker-2
      export TRIUMVIR_CLIENT_URL=$(triumvir clients add shop-b --json | jq -r .url)
    """
    made = run(add(settings(), name, instance))
    if as_json:
        write_json(made)
        return
    if made.url is None:
        say(f"client {made.client} was there already; it now has the queue {made.status_queue}")
        return
    say(
        f"client    {made.client}\npassword  {made.password}\nqueue     {made.status_queue}\nurl       {made.url}"
    )
    note("the password is shown this once; to submit orders, set TRIUMVIR_CLIENT_URL to the url")


@app.command("list")
def list_clients(
    as_json: Annotated[bool, typer.Option("--json", help="A JSON array instead of a table.")] = False,
) -> None:
    """List clients with their status queues: what waits there, and whether somebody reads it.

    \b
    Example:
      triumvir clients list
    """
    found = run(listed(settings()))
    if as_json:
        write_json(found)
        return
    show_rows(
        ("client", "status queue", "waiting", "readers", "connections allowed"),
        (
            (
                client.client,
                queue.name,
                str(queue.waiting),
                str(queue.readers),
                str(client.max_connections or NONE),
            )
            for client in found
            for queue in client.queues or [StatusQueue(NONE, 0, 0)]
        ),
        nothing="no clients; add one with: triumvir clients add NAME",
    )


async def add(settings: Settings, name: str, instance: str | None = None) -> NewClient:
    """Add a client, or what one that exists lacks: its queue, or the queue of an instance. Raises
    ConfigurationError if all is there.
    """
    queue = status_queue(name, instance)
    vhost = vhost_of(settings.broker_url)
    async with BrokerAdmin(settings.management_url) as admin:
        exists = name in {client.name for client in await admin.list_clients(vhost)}
        if not exists and await admin.has_client(name):
            raise ConfigurationError(
                f"client {name!r} exists on another vhost of this broker; choose another name"
            )
        if exists and instance is None and queue in await admin.queue_depths(vhost):
            raise ConfigurationError(
                f"client {name!r} exists already; its password cannot be shown again"
                f" (another process of it: triumvir clients add {name} --instance NAME)"
            )
        await _declare(settings, name, instance)
        if exists:
            return NewClient(name, queue, None, None)
        password = secrets.token_urlsafe(24)
        await admin.add_client(vhost, name, password)
    return NewClient(name, queue, password, _url_of(settings.broker_url, name, password))


async def renew(settings: Settings, name: str) -> str:
    """Add a client, or give the one that exists a new password; its URL."""
    await _declare(settings, name, None)
    password = secrets.token_urlsafe(24)
    async with BrokerAdmin(settings.management_url) as admin:
        await admin.add_client(vhost_of(settings.broker_url), name, password)
    return _url_of(settings.broker_url, name, password)


async def listed(settings: Settings) -> list[ListedClient]:
    """Every client of this vhost."""
    vhost = vhost_of(settings.broker_url)
    async with BrokerAdmin(settings.management_url) as admin:
        accounts = await admin.list_clients(vhost)
        depths = await admin.queue_depths(vhost)
    return [
        ListedClient(
            account.name,
            [
                StatusQueue(name, depth.ready + depth.unacknowledged, depth.consumers)
                for name, depth in sorted(depths.items())
                if client_of_status_queue(name) == account.name
            ],
            account.max_connections,
            account.max_channels,
        )
        for account in accounts
    ]


def vhost_of(broker_url: str) -> str:
    """The vhost that an AMQP URL names; ``/`` if it names none."""
    return urllib.parse.unquote(urllib.parse.urlsplit(broker_url).path.removeprefix("/")) or "/"


async def _declare(settings: Settings, name: str, instance: str | None) -> None:
    connection = await connect(settings.broker_url, "triumvir clients add")
    try:
        quorum = settings.quorum_queues
        topology = core_topology(quorum=quorum) + client_topology(name, quorum=quorum)
        if instance is not None:
            topology += client_topology(name, instance, quorum=quorum)
        await declare(connection, topology)
    finally:
        await connection.close()


def _url_of(broker_url: str, name: str, password: str) -> str:
    place = urllib.parse.urlsplit(broker_url)
    host = place.netloc.rpartition("@")[2]
    return place._replace(netloc=f"{name}:{urllib.parse.quote(password, safe='')}@{host}").geturl()
