"""Dead letters for the fault tests: orders that are refused at the door, and replays of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

from tests.faults.agents import TRADE
from tests.faults.cluster import Cluster
from tests.waiting import eventually_true
from triumvir.broker import ORDERS_EXCHANGE, Outcome, OutMessage, Publisher, connect
from triumvir.contracts.messages import OrderSubmit
from triumvir.store.operators import apply_workflow
from triumvir.store.settling import ask_replay
from triumvir.workflow import Workflow


async def late(cluster: Cluster, name: str, count: int) -> list[str]:
    """Letters of so many orders of a workflow that was applied after they were refused."""
    ids = await refused(cluster, name, count)
    await apply_workflow(cluster.database, Workflow(name, 1, TRADE.steps, on_error=TRADE.on_error))
    return ids


async def refused(cluster: Cluster, workflow: str, count: int) -> list[str]:
    """The ids of the letters of so many orders of a workflow that is not there."""
    messages = [_submission(cluster, workflow, n) for n in range(count)]
    connection = await connect(cluster.client_url, "refused")
    publisher = Publisher(connection)
    assert await publisher.publish(messages) == [Outcome.CONFIRMED] * count
    await publisher.close()
    await connection.close()
    query = "select id from dead_letters where message_id = any($1)"
    keys = [message.message_id for message in messages]

    async def all_kept() -> bool:
        return len(await cluster.database.fetch(query, keys)) == count

    await eventually_true(all_kept, within=60, what="the letters")
    return [str(row["id"]) for row in await cluster.database.fetch(query, keys)]


def _submission(cluster: Cluster, workflow: str, n: int) -> OutMessage:
    key = f"{cluster.client_name}/{workflow}-{n}"
    body = json.dumps({"order_id": f"{workflow}-{n}", "workflow": workflow, "payload": {"ask": {}}}).encode()
    return OutMessage(
        ORDERS_EXCHANGE, "", f"{key}/submit", OrderSubmit.TYPE, key, body, user_id=cluster.client_name
    )  # fmt: skip


async def replay(cluster: Cluster, ids: Sequence[str]) -> None:
    """As an operator asks for it."""
    for letter_id in ids:
        assert await ask_replay(cluster.database, UUID(letter_id), "operator:test", None)


async def answered(cluster: Cluster, ids: Sequence[str]) -> bool:
    """Whether no replay of these waits any more."""
    query = "select count(*) = 0 from dead_letters where id = any($1::uuid[]) and replay_asked_at is not null"
    return bool(await cluster.database.fetchval(query, ids))


async def settlements(cluster: Cluster, ids: Sequence[str]) -> dict[str | None, int]:
    """How many of these letters were settled how."""
    query = "select settlement, count(*) from dead_letters where id = any($1::uuid[]) group by settlement"
    return {row["settlement"]: row["count"] for row in await cluster.database.fetch(query, ids)}
