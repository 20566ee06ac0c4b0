"""What a test does beside the services: submit, watch, send odd messages, look into the store."""

from __future__ import annotations

import json
import secrets
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Self

import aio_pika
import asyncpg

from tests.integration.services.lab import Call, calls, open_gate
from tests.servers import SCHEMA, blocking
from tests.services import Account, Suite
from tests.waiting import eventually
from triumvir.broker import agent_queue
from triumvir.client import Client, Order
from triumvir.store.reads import OrderDetail, Reads

_SETTINGS = {"search_path": SCHEMA}


def execute(suite: Suite, sql: str) -> None:
    """One statement on the suite's database."""

    async def run() -> None:
        connection = await asyncpg.connect(suite.settings.database_url, server_settings=_SETTINGS)
        await connection.execute(sql)
        await connection.close()

    blocking(run)


@dataclass
class Sender:
    """A client without the client library: it publishes what it likes, and hears what its queue brings."""

    account: Account
    channel: aio_pika.abc.AbstractChannel
    heard: list[dict[str, Any]] = field(default_factory=list)

    async def send(
        self, body: bytes | dict[str, Any], type_: str | None = "order.submit.v1", **properties: Any
    ) -> str:
        """Publish to ``orders``; the message id. Properties that are not given are those of a good client."""
        message_id = properties.pop("message_id", f"m-{secrets.token_hex(6)}")
        given: dict[str, Any] = {
            "content_type": "application/json",
            "user_id": self.account.name,
            **properties,
        }
        exchange = await self.channel.get_exchange("orders", ensure=False)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        await exchange.publish(aio_pika.Message(content, type=type_, message_id=message_id, **given), "")
        return str(message_id)

    async def hears(self, **members: Any) -> dict[str, Any]:
        """The first status with all these members, once it has come."""

        def find() -> dict[str, Any] | None:
            return next((status for status in self.heard if members.items() <= status.items()), None)

        found = await eventually(find, what=f"a status with {members}")
        assert found is not None
        return found

    async def hears_in_order(self, order_id: str, sequences: list[int]) -> None:
        """Until the statuses of an order are those with these numbers, as they came."""

        def told() -> list[int]:
            return [status["sequence"] for status in self.heard if status["order_id"] == order_id]

        await eventually(lambda: told() == sequences, what=f"{sequences} of {order_id}")

    async def hears_times(self, times: int, **members: Any) -> None:
        """Until a status with all these members has come exactly so often."""

        def count() -> int:
            return len([status for status in self.heard if members.items() <= status.items()])

        await eventually(lambda: count() == times, what=f"{times} of {members}")


@dataclass
class Requests:
    """Every request that reaches an agent's queue, whatever the agent does with it."""

    seen: list[dict[str, Any]] = field(default_factory=list)

    async def of(self, order_id: str, attempt: int) -> list[dict[str, Any]]:
        """Those of an order as they came, once one of this attempt is among them."""

        def find() -> list[dict[str, Any]]:
            return [body for body in self.seen if body["order_id"] == order_id]

        await eventually(
            lambda: any(body["attempt"] == attempt for body in find()),
            what=f"attempt {attempt} of {order_id}",
        )
        return find()


class Workbench:
    """``async with Workbench(suite, account) as bench``."""

    def __init__(self, suite: Suite, account: Account) -> None:
        self.suite = suite
        self.account = account
        self._stack = AsyncExitStack()
        self._client: Client | None = None
        self.db: asyncpg.Connection

    async def __aenter__(self) -> Self:
        self.db = await asyncpg.connect(self.suite.settings.database_url, server_settings=_SETTINGS)
        self._stack.push_async_callback(self.db.close)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def client(self) -> Client:
        """The client library, connected when first asked for."""
        if self._client is None:
            self._client = await self._stack.enter_async_context(Client(self.account.url))
        return self._client

    async def submit(self, workflow: str, payload: dict[str, Any] | None = None, **members: Any) -> Order:
        """An order under an id of its own."""
        members.setdefault("order_id", new_id())
        return await (await self.client()).submit(workflow, payload or {}, **members)

    async def told(self, order: Order) -> list[str]:
        """The names of an order's statuses up to its end."""
        return [status.status async for status in order.statuses()]

    async def sender(self, account: Account | None = None, instance: str = "") -> Sender:
        """A raw client; by default one of its own, with a status queue. It reads the one of its ``instance``."""
        account = account or self.suite.add_client("raw")
        connection = await aio_pika.connect(account.url)
        self._stack.push_async_callback(connection.close)
        sender = Sender(account, await connection.channel(on_return_raises=True))
        queue = await sender.channel.get_queue(f"status.{account.name}{instance}", ensure=False)

        async def hear(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            sender.heard.append(json.loads(message.body))

        await queue.consume(hear, no_ack=True)
        return sender

    async def internal(self) -> aio_pika.abc.AbstractChannel:
        """A channel of the administrator."""
        connection = await aio_pika.connect(self.suite.settings.broker_url)
        self._stack.push_async_callback(connection.close)
        return await connection.channel(on_return_raises=True)

    async def requests(self, agent: str) -> Requests:
        """What is sent to an agent from now on: a queue of the test's own gets a copy of each."""
        channel, requests = await self.internal(), Requests()
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(await channel.get_exchange("triumvir", ensure=False), agent_queue(agent))

        async def note(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            requests.seen.append(json.loads(message.body))

        await queue.consume(note, no_ack=True)
        return requests

    async def publish(self, queue: str, body: bytes, type_: str, message_id: str | None = None) -> None:
        """Publish to an internal queue, as a service would."""
        channel = await self.internal()
        exchange = await channel.get_exchange("triumvir", ensure=False)
        message = aio_pika.Message(body, type=type_, message_id=message_id or f"m-{secrets.token_hex(6)}")
        await exchange.publish(message, queue)

    async def alert(self, text: str) -> dict[str, Any]:
        """The alert that holds this text, once it is there; alerts stay known for all tests of the module."""
        channel = await self.internal()
        queue = await channel.get_queue("alerts", ensure=False)

        async def look() -> list[dict[str, Any]]:
            while (message := await queue.get(no_ack=True, fail=False)) is not None:
                self.suite.alerts.append(json.loads(message.body))
            return [alert for alert in self.suite.alerts if text in json.dumps(alert)]

        found: list[dict[str, Any]] = await eventually(look, what=f"an alert about {text}")
        return found[0]

    async def detail(self, order_id: str) -> OrderDetail:
        """All there is in the store of one order of this bench's client."""
        found = await Reads(self.db).order(self.account.name, order_id)
        assert found is not None, f"there is no order {order_id}"
        return found

    async def until_state(self, order_id: str, *states: str, within: float = 15.0) -> OrderDetail:
        """The order once it is in one of these states."""

        async def look() -> OrderDetail | None:
            found = await Reads(self.db).order(self.account.name, order_id)
            return found if found is not None and found.order.state in states else None

        found = await eventually(look, within=within, what=f"{order_id} in {states}")
        assert found is not None
        return found

    async def until_history(self, order_id: str, why: str) -> OrderDetail:
        """The order once its history says so."""

        async def look() -> OrderDetail | None:
            found = await Reads(self.db).order(self.account.name, order_id)
            return found if found is not None and why in [row.why for row in found.history] else None

        found = await eventually(look, what=f"{order_id}: {why}")
        assert found is not None
        return found

    async def letter(self, message_id: str) -> Any:
        """The dead letter of a message, once it is kept."""
        query = "select * from dead_letters where message_id = $1 and queue !~ 'dead$'"
        return await eventually(
            lambda: self.db.fetchrow(query, message_id), what=f"a dead letter of {message_id}"
        )

    async def until_called(self, order_id: str, step: str) -> None:
        """Until an agent began to run (or undo) a step."""
        await eventually(
            lambda: any(call.step == step for call in self.calls(order_id)), what=f"a call of {step}"
        )

    async def until_cancel_is_taken(self, order_id: str) -> None:
        """Until a scheduler has taken what was asked of an order."""
        query = "select bool_and(taken_at is not null) from commands where order_id = $1"
        await eventually(lambda: self.db.fetchval(query, order_id), what="the cancel to be taken")

    def calls(self, order_id: str) -> list[Call]:
        """Every call that agents made for an order."""
        return calls(self.suite.folder, order_id)

    def open_gate(self, order_id: str) -> None:
        open_gate(self.suite.folder, order_id)


def new_id() -> str:
    return f"o-{secrets.token_hex(5)}"
