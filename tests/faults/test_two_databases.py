"""Two databases without a common commit: deaths between the two writes, and the same order from everywhere at once."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import asyncpg
import pytest

from tests.faults.cluster import Cluster
from tests.faults.commit_proxy import CommitProxy
from tests.faults.pressure import said
from tests.faults.test_f53_resubmission import refused, send_raw, submission
from tests.waiting import eventually_true
from triumvir.broker import Outcome, OutMessage, Publisher, connect
from triumvir.telemetry import events

BETWEEN = "submitter.documents.after_commit"
YOUNG = "0.5"
"""The age, in seconds, at which a document without an order gets one."""
NEVER = "600"
COUNT = 12
RUNNING = ("scheduler", "agent")


async def test_with_two_databases_nothing_is_different(two_databases: Cluster) -> None:
    cluster = two_databases
    await cluster.start()
    await cluster.load.submit(40)
    await cluster.assert_sound()
    assert await cluster.database.fetchval("select count(*) from order_documents") == 0
    assert await documents(cluster, "select count(*) from order_documents") == 40


@pytest.mark.parametrize("count", [1, COUNT], ids=["one message", "a batch"])
async def test_a_death_between_the_two_writes_is_mended_by_the_redelivery(
    two_databases: Cluster, count: int
) -> None:
    """The supervisor is of no help: to it the documents are young for ten minutes."""
    cluster = two_databases
    cluster.tune(lone_document_age=NEVER)
    await cluster.start()
    victim = await cluster.arm("submitter", BETWEEN, 1, 1)
    await cluster.load.submit(count, "good")
    assert await victim.dies(times=2)
    assert cluster.crashes(BETWEEN) == 2
    await cluster.assert_sound()
    assert len(await cluster.states()) == count
    assert not said(cluster, "supervisor", events.ACCEPTANCE_COMPLETED)


@pytest.mark.parametrize("count", [1, COUNT], ids=["one message", "a batch"])
async def test_a_document_whose_submission_never_comes_again_gets_its_order_once(
    two_databases: Cluster, count: int
) -> None:
    """The submitter dies between the two writes and the queue is lost with what it held; two supervisors look."""
    cluster = two_databases
    lost = await lose_between(cluster, count, *RUNNING, "supervisor")
    assert count == 1 or len(lost) > 1, "a batch"
    await (await cluster.add("supervisor", "second supervisor")).ready()
    await eventually_true(
        lambda: has_orders(cluster, len(lost)), within=60, what="an order for each document"
    )
    await cluster.assert_sound()
    names = ("supervisor", "second supervisor")
    made = [line["order"] for name in names for line in said(cluster, name, events.ACCEPTANCE_COMPLETED)]
    assert sorted(made) == sorted(await cluster.states()), "each was made by one supervisor"
    assert await marked(cluster) == await documents(cluster, "select max(at) from order_documents")


@pytest.mark.parametrize("point", ["supervisor.check.before_commit", "supervisor.check.after_commit"])
async def test_a_supervisor_that_dies_as_it_makes_the_order_leaves_it_to_the_next(
    two_databases: Cluster, point: str
) -> None:
    cluster = two_databases
    lost = await lose_between(cluster, COUNT, *RUNNING)
    supervisor = await cluster.add("supervisor", TRIUMVIR_CRASH_AT=f"{point}:1")
    supervisor.restarting = False
    assert await supervisor.dies()
    await supervisor.restart({"TRIUMVIR_CRASH_AT": ""})
    await eventually_true(
        lambda: has_orders(cluster, len(lost)), within=60, what="an order for each document"
    )
    await cluster.assert_sound()


async def test_a_supervisor_and_late_redeliveries_at_once_make_each_order_once(
    two_databases: Cluster,
) -> None:
    """The submissions come again, at two submitters, as the documents come of age under two supervisors."""
    cluster = two_databases
    lost = await lose_between(cluster, COUNT, *RUNNING)
    starting = [
        cluster.add(kind, name)
        for kind, name in (
            ("supervisor", "supervisor"), ("supervisor", "second supervisor"),
            ("submitter", "second submitter"), ("submitter", "third submitter"),
        )
    ]  # fmt: skip
    await asyncio.gather(*starting, *(send(cluster, lost) for _ in range(3)))
    await eventually_true(
        lambda: has_orders(cluster, len(lost)), within=60, what="an order for each document"
    )
    await cluster.assert_sound()
    received = "select count(*) from transitions where status = 'received'"
    assert await cluster.database.fetchval(received) == len(lost)


async def test_documents_whose_commit_was_not_answered_are_found_at_the_next_try(
    two_databases: Cluster,
) -> None:
    cluster = two_databases
    assert cluster.settings.orders_dsn is not None
    name = "triumvir submitter documents"
    proxy = CommitProxy(cluster.settings.orders_dsn, frozenset({name}))
    await proxy.start()
    try:
        await cluster.start(TRIUMVIR_ORDERS_DSN=proxy.url)
        proxy.swallow(name, 3)
        for _ in range(3):
            await cluster.load.submit(COUNT, "good")
        await cluster.assert_sound()
        assert proxy.swallowed[name] == 3
    finally:
        await proxy.stop()


async def test_the_same_orders_at_two_submitters_at_once_are_one_each(two_databases: Cluster) -> None:
    """Equal ones are answered, others under the same id refused, whichever side has the first of them."""
    cluster = two_databases
    await cluster.start()
    await (await cluster.add("submitter", "second submitter")).ready()
    ids = [f"race-{n}" for n in range(COUNT)]
    raw = await asyncio.gather(*(send_raw(cluster, ids) for _ in range(3)))
    assert all(outcome is Outcome.CONFIRMED for outcomes in raw for outcome in outcomes)
    letters = "select count(*) = $1 from dead_letters"
    await eventually_true(
        lambda: cluster.database.fetchval(letters, COUNT), within=60, what="letters of the losers"
    )
    both = [f"{cluster.client_name}/{order_id}/{kind}" for order_id in ids for kind in ("submit", "other")]
    await cluster.assert_sound(expected_dead=both)
    assert set((await cluster.states()).values()) == {"processed"}
    assert len(refused(cluster)) == COUNT


async def lose_between(cluster: Cluster, count: int, *beside: str) -> list[OutMessage]:
    """Documents without orders, up to so many, whose submissions are gone; ``beside`` runs as well. Returns those
    submissions.
    """
    cluster.tune(lone_document_age=YOUNG)
    await cluster.start(*beside)
    submitter = await cluster.add("submitter", TRIUMVIR_CRASH_AT=f"{BETWEEN}:1")
    submitter.restarting = False
    await submitter.ready()
    messages = {f"lone-{n}": submission(cluster, f"lone-{n}", {"ask": {}}, "submit") for n in range(count)}
    submitter.send(signal.SIGSTOP)  # so that it finds several at once
    await send(cluster, list(messages.values()))
    submitter.send(signal.SIGCONT)
    assert await submitter.dies()
    await purge_orders(cluster)
    lone = await documents(cluster, "select array_agg(order_id) from order_documents")
    return [messages[order_id] for order_id in lone]


async def send(cluster: Cluster, messages: list[OutMessage]) -> None:
    connection = await connect(cluster.client_url, "submitting")
    publisher = Publisher(connection)
    assert set(await publisher.publish(messages)) == {Outcome.CONFIRMED}
    await publisher.close()
    await connection.close()


async def purge_orders(cluster: Cluster) -> None:
    connection = await connect(cluster.settings.broker_url, "purging")
    try:
        channel = await connection.channel(confirms=False, timeout=5)
        await eventually_true(lambda: _purged(channel), what="the queue to be empty")
    finally:
        await connection.close()


async def _purged(channel: Any) -> bool:
    await channel.queue_purge("orders")
    found = await channel.queue_declare("orders", passive=True)
    return bool(found.message_count == 0 and found.consumer_count == 0)


async def documents(cluster: Cluster, query: str) -> Any:
    """One value out of the orders database."""
    assert cluster.settings.orders_dsn is not None
    schema = {"search_path": cluster.settings.database_schema}
    connection = await asyncpg.connect(cluster.settings.orders_dsn, server_settings=schema)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def has_orders(cluster: Cluster, count: int) -> bool:
    return len(await cluster.states()) == count


async def marked(cluster: Cluster) -> Any:
    """How far documents were compared."""
    return await cluster.database.fetchval("select checked_at from documents_elsewhere")
