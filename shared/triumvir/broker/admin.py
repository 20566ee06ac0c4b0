"""RabbitMQ's management API: vhosts, the users of clients with their permissions and limits, and what queues hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Self
from urllib.parse import quote

import aiohttp
from yarl import URL

from triumvir.broker.topology import ORDERS_EXCHANGE, Binding, status_queue
from triumvir.errors import BrokerError, BrokerRefused

CLIENT_TAG: Final = "triumvir-client"
"""Marks the users that :meth:`BrokerAdmin.add_client` made; it grants nothing. No other user is ever touched."""
MAX_CONNECTIONS: Final = 20
MAX_CHANNELS: Final = 100

_OK: Final = (200, 201, 204)


@dataclass(frozen=True, slots=True)
class ClientAccount:
    """A client's user in one vhost. ``max_connections`` and ``max_channels`` are None where no limit is set."""

    name: str
    max_connections: int | None
    max_channels: int | None


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Messages ready and unacknowledged, and consumers; some seconds old, as the broker gathers them."""

    name: str
    ready: int
    unacknowledged: int
    consumers: int


@dataclass(frozen=True, slots=True)
class QueueConsumer:
    """One consumer of a queue, and the connection it stands on (name and user)."""

    queue: str
    tag: str
    connection: str
    user: str
    prefetch: int


class BrokerAdmin:
    """``async with BrokerAdmin(management_url) as admin``. The URL carries the credentials of an administrator.

    Every method raises BrokerError in words that never hold a password; ``timeout`` (seconds) bounds each request.
    """

    def __init__(self, management_url: str, *, timeout: float = 10.0) -> None:
        try:
            url = URL(management_url)
        except ValueError:
            raise BrokerError(
                "the management URL cannot be read: write http://user:password@host:15672"
            ) from None
        if url.scheme not in ("http", "https") or not url.host:
            raise BrokerError("the management URL must be http://user:password@host:15672 (or https://)")
        self._user = url.user or "guest"
        self._authorization = aiohttp.encode_basic_auth(self._user, url.password or "guest", "utf-8")
        self._base = str(url.with_user(None).with_query(None).with_fragment(None)).rstrip("/")
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers={"Authorization": self._authorization},
            timeout=aiohttp.ClientTimeout(total=self._timeout),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def create_vhost(self, vhost: str) -> None:
        """Create ``vhost``; nothing happens if it exists."""
        await self._request("PUT", "vhosts", vhost)

    async def delete_vhost(self, vhost: str) -> None:
        """Delete ``vhost`` with everything in it; nothing happens if it is gone."""
        await self._request("DELETE", "vhosts", vhost, missing_ok=True)

    async def add_client(
        self,
        vhost: str,
        client: str,
        password: str,
        *,
        max_connections: int = MAX_CONNECTIONS,
        max_channels: int = MAX_CHANNELS,
    ) -> None:
        """A user named as the client, who may write to ``orders``, read its own status queues, and nothing else.

        Repeating it sets everything anew, the password too. Its queue is declared by ``client_topology``. Raises
        BrokerError if a user of that name exists that is no client.
        """
        await self._put_user(client, password, must_exist=False)
        permissions = {
            "configure": "^$",
            "write": f"^{re.escape(ORDERS_EXCHANGE)}$",
            "read": rf"^{re.escape(status_queue(client))}(\..+)?$",
        }
        await self._request("PUT", "permissions", vhost, client, body=permissions)
        for limit, value in (("max-connections", max_connections), ("max-channels", max_channels)):
            await self._request("PUT", "user-limits", client, limit, body={"value": value})

    async def rotate_password(self, client: str, password: str) -> None:
        """Give the client another password. Connections that are open stay open until they reconnect."""
        await self._put_user(client, password, must_exist=True)

    async def remove_client(self, client: str) -> None:
        """Delete the client's user: its connections are closed. Its queues stay, with what is in them."""
        if await self._is_client(client):
            await self._request("DELETE", "users", client, missing_ok=True)

    async def has_client(self, name: str) -> bool:
        """Whether there is a client of that name, in whichever vhost. BrokerError if such a user is no client."""
        return await self._is_client(name)

    async def list_clients(self, vhost: str) -> list[ClientAccount]:
        """The clients that may use ``vhost``, by name."""
        users = {user["name"] for user in await self._list("users") if CLIENT_TAG in _tags(user)}
        allowed = {entry["user"] for entry in await self._list("vhosts", vhost, "permissions")}
        limits = {entry["user"]: entry.get("value") or {} for entry in await self._list("user-limits")}
        return [
            ClientAccount(
                name,
                limits.get(name, {}).get("max-connections"),
                limits.get(name, {}).get("max-channels"),
            )
            for name in sorted(users & allowed)
        ]

    async def queue_depths(self, vhost: str) -> dict[str, QueueDepth]:
        """Every queue of ``vhost`` by name."""
        return {
            queue["name"]: QueueDepth(
                queue["name"],
                queue.get("messages_ready") or 0,
                queue.get("messages_unacknowledged") or 0,
                queue.get("consumers") or 0,
            )
            for queue in await self._list("queues", vhost)
        }

    async def has_vhost(self, vhost: str) -> bool:
        """Whether there is such a vhost."""
        return await self._request("GET", "vhosts", vhost, missing_ok=True) is not None

    async def clock(self) -> datetime:
        """The time by the broker's machine, cut to the second: the date of its answer."""
        headers, _ = await self._exchange("GET", "whoami")
        try:
            return parsedate_to_datetime(headers["Date"])
        except (KeyError, ValueError):
            raise BrokerError(f"{self._base} does not answer as RabbitMQ's management API does") from None

    async def exchange_kinds(self, vhost: str) -> dict[str, str]:
        """Every exchange of ``vhost`` by name: ``direct``, ``fanout``, ..."""
        return {exchange["name"]: exchange["type"] for exchange in await self._list("exchanges", vhost)}

    async def bindings(self, vhost: str) -> set[Binding]:
        """Every binding of a queue in ``vhost``."""
        return {
            Binding(entry["source"], entry["destination"], entry["routing_key"])
            for entry in await self._list("bindings", vhost)
            if entry["destination_type"] == "queue"
        }

    async def queue_arguments(self, vhost: str) -> dict[str, dict[str, Any]]:
        """The arguments every queue of ``vhost`` was declared with, by name."""
        return {
            queue["name"]: dict(queue.get("arguments") or {}) for queue in await self._list("queues", vhost)
        }

    async def permissions(self, vhost: str, user: str) -> tuple[str, str, str] | None:
        """What ``user`` may configure, write and read in ``vhost``, as patterns; None if nothing at all."""
        found = await self._request("GET", "permissions", vhost, user, missing_ok=True)
        return None if found is None else (found["configure"], found["write"], found["read"])

    async def consumers(self, vhost: str) -> list[QueueConsumer]:
        """Every consumer in ``vhost``."""
        return [
            QueueConsumer(
                entry["queue"]["name"],
                entry["consumer_tag"],
                _channel_of(entry).get("connection_name") or "",
                _channel_of(entry).get("user") or "",
                entry.get("prefetch_count") or 0,
            )
            for entry in await self._list("consumers", vhost)
        ]

    async def _put_user(self, client: str, password: str, *, must_exist: bool) -> None:
        status_queue(client)  # refuses what is no name of a client
        if not password:
            raise BrokerError(f"client {client!r}: an empty password would lock it out; give one")
        if not await self._is_client(client) and must_exist:
            raise BrokerError(f"there is no client {client!r}")
        await self._request("PUT", "users", client, body={"password": password, "tags": CLIENT_TAG})

    async def _is_client(self, name: str) -> bool:
        """Whether there is a client of that name. Raises BrokerError if the user is something else."""
        user = await self._request("GET", "users", name, missing_ok=True)
        if user is None:
            return False
        if CLIENT_TAG not in _tags(user):
            raise BrokerError(f"user {name!r} exists and is no Triumvir client; choose another name")
        return True

    async def _list(self, *path: str) -> list[dict[str, Any]]:
        found = await self._request("GET", *path)
        if not isinstance(found, list):
            raise BrokerError(f"{self._base} does not answer as RabbitMQ's management API does")
        return found

    async def _request(
        self, method: str, *path: str, body: dict[str, Any] | None = None, missing_ok: bool = False
    ) -> Any:
        """The decoded answer, None without one, or with ``missing_ok`` when there is no such thing."""
        _, content = await self._exchange(method, *path, body=body, missing_ok=missing_ok)
        return content

    async def _exchange(
        self, method: str, *path: str, body: dict[str, Any] | None = None, missing_ok: bool = False
    ) -> tuple[Mapping[str, str], Any]:
        """The headers of the answer, and what :meth:`_request` returns."""
        if self._session is None:
            raise BrokerError("open it first: async with BrokerAdmin(...)")
        url = URL(f"{self._base}/api/{'/'.join(quote(part, safe='') for part in path)}", encoded=True)
        try:
            async with self._session.request(method, url, json=body) as response:
                if response.status == 404 and missing_ok:
                    return response.headers, None
                if response.status not in _OK:
                    raise self._refusal(method, path, response.status, await response.text())
                return response.headers, await response.json() if response.status == 200 else None
        except TimeoutError:
            raise BrokerError(f"RabbitMQ's management API at {self._base} gave no answer in time") from None
        except (aiohttp.ContentTypeError, ValueError):
            raise BrokerError(f"{self._base} does not answer as RabbitMQ's management API does") from None
        except (aiohttp.ClientError, OSError) as error:
            why = error.strerror if isinstance(error, aiohttp.ClientConnectorError) else None
            raise BrokerError(
                f"RabbitMQ's management API at {self._base} cannot be reached ({why or error}); "
                "is RabbitMQ's plugin rabbitmq_management on?"
            ) from None

    def _refusal(self, method: str, path: tuple[str, ...], status: int, text: str) -> BrokerError:
        what = f"{method} {'/'.join(path)}"
        if status in (401, 403):
            return BrokerRefused(
                f"RabbitMQ's management API at {self._base} refused user {self._user!r} ({what}): "
                "wrong name or password, or no administrator"
            )
        return BrokerError(f"RabbitMQ's management API at {self._base} refused {what}: {status} {text[:300]}")


def _channel_of(consumer: dict[str, Any]) -> dict[str, Any]:
    """What the broker knows of the channel: an empty list, as it writes an empty object, for a moment."""
    return consumer["channel_details"] or {}


def _tags(user: dict[str, Any]) -> list[str]:
    """A list in RabbitMQ 3.9 and later; earlier one text with commas."""
    tags = user.get("tags") or []
    return tags.split(",") if isinstance(tags, str) else list(tags)
