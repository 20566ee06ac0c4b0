"""F34: thirty days of orders, purged under load, by supervisors that die, and beside messages that come once more."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Final

import pytest

from tests.faults.agents import TRADE
from tests.faults.cluster import Cluster
from tests.faults.test_f53_resubmission import send_raw
from tests.faults.test_two_databases import documents
from tests.waiting import eventually_true
from triumvir.runtime.crash import EXIT_CODE
from triumvir.store.operators import apply_workflow

WORKFLOWS: Final = (
    replace(TRADE, version=2, retention_days=7),
    replace(TRADE, name="archive", retention_days=20),
    replace(TRADE, name="keeps"),
)
EACH: Final = 30
AGED: Final = (
    "update orders set ended_at = ended_at - make_interval(days => (no % 30)::int) where ended_at is not null"
)
DUE: Final = """
    select count(*) from orders where ended_at is not null and purged_at is null and (
        (workflow = 'trade' and version = 2 and ended_at < now() - interval '7 d')
        or (workflow = 'archive' and ended_at < now() - interval '20 d'))
"""
SURVIVORS: Final = """
    select count(*) from orders where purged_at is not null and not (
        (workflow = 'trade' and version = 2 and ended_at < now() - interval '7 d')
        or (workflow = 'archive' and ended_at < now() - interval '20 d'))
"""


async def a_month_of_orders(cluster: Cluster, each: int = EACH, *kinds: str) -> None:
    """Of several workflows, some ended today and some every day of the last thirty."""
    for workflow in WORKFLOWS:
        await apply_workflow(cluster.database, workflow)
    await cluster.start("submitter", "scheduler", "agent")
    for name in ("trade", "archive", "keeps"):
        cluster.load.workflow = name
        await cluster.load.submit(each, *kinds)
    cluster.load.workflow = "trade"
    await (await cluster.add("supervisor")).ready()
    assert await cluster.settle()
    await cluster.database.execute(AGED)


async def none(cluster: Cluster, what: str) -> bool:
    return not await cluster.database.fetchval(what)


async def test_f34_a_month_of_orders_is_purged_under_load_by_two_supervisors(cluster: Cluster) -> None:
    cluster.tune(purge_rate="10")
    await a_month_of_orders(cluster)
    due = await cluster.database.fetchval(DUE)
    assert due >= EACH
    await (await cluster.add("supervisor", "second supervisor")).ready()
    await cluster.load.submit(30)
    await eventually_true(partial(none, cluster, DUE), within=90, what="the purge")
    await cluster.assert_sound()
    assert await none(cluster, SURVIVORS), "nothing else"
    assert await cluster.database.fetchval("select count(*) from orders where purged_at is not null") == due
    rows = await cluster.database.fetch("select count(*) from transitions where why = 'purged' group by no")
    assert [row[0] for row in rows] == [1] * due, "each once, whoever did it"


@pytest.mark.slow
@pytest.mark.parametrize("point", ["supervisor.purge.before_commit", "supervisor.purge.after_commit"])
async def test_f34_a_supervisor_that_dies_in_the_middle_of_a_purge(cluster: Cluster, point: str) -> None:
    cluster.tune(purge_rate="10")
    await a_month_of_orders(cluster, 10, "good")
    victim = await cluster.arm("supervisor", point, 1, 1)
    await cluster.load.submit(10)
    assert await victim.dies(times=2)
    assert victim.exits.count(EXIT_CODE) == 2
    await eventually_true(partial(none, cluster, DUE), within=90, what="the purge")
    await cluster.assert_sound()
    assert await none(cluster, SURVIVORS)


async def test_f34_an_old_submission_after_the_purge_is_known_and_another_one_is_a_conflict(
    cluster: Cluster,
) -> None:
    """Both come again, as from a queue that was forgotten; nothing is done, and no payload is written again."""
    ids = [f"old-{n}" for n in range(4)]
    await purged_orders(cluster, ids)
    before = await everything(cluster)
    for _ in range(2):
        await send_raw(cluster, ids)
    await eventually_true(partial(set_aside, cluster, len(ids)), what="the conflicts")
    await cluster.assert_sound(expected_dead=[f"{cluster.client_name}/{each}/other" for each in ids])
    assert await everything(cluster) == before
    answers = Counter(
        (status.order_id, status.status, status.detail)
        for told in cluster.load.received.values()
        for status in told
        if status.detail == "its data was purged"
    )
    assert answers == {(each, "completed", "its data was purged"): 2 for each in ids}


async def test_f34_with_two_databases_payloads_go_whoever_dies_and_keys_are_forgotten_in_both(
    two_databases: Cluster,
) -> None:
    cluster = two_databases
    cluster.tune(purge_rate="1000", lone_document_age="0.5")
    ids = [f"old-{n}" for n in range(4)]
    await purged_orders(cluster, ids, "supervisor.purge.documents")
    assert await documents(cluster, "select count(*) from order_documents where payload = ''") == len(ids)
    await send_raw(cluster, ids)
    await eventually_true(partial(set_aside, cluster, len(ids)), what="the conflicts")
    await cluster.assert_sound(expected_dead=[f"{cluster.client_name}/{each}/other" for each in ids])
    assert await documents(cluster, "select count(*) from order_documents where payload <> ''") == 0
    await cluster.database.execute("update orders set purged_at = purged_at - interval '91 d'")
    await eventually_true(
        partial(none, cluster, "select count(*) from orders"), what="that they are forgotten"
    )
    assert await documents(cluster, "select count(*) from order_documents") == 0
    again = await cluster.load.submit_one(ids[0])
    await eventually_true(partial(is_processed, cluster, again.key), what="a new order under the key")
    assert await documents(cluster, "select count(*) from order_documents where payload <> ''") == 1


async def purged_orders(cluster: Cluster, ids: list[str], crash_at: str | None = None) -> None:
    """Processed a month ago, and purged since; by a supervisor that died at it once."""
    for workflow in WORKFLOWS:
        await apply_workflow(cluster.database, workflow)
    await cluster.start()
    for each in ids:
        await cluster.load.submit_one(each)
    assert await cluster.settle()
    victim = await cluster.arm("supervisor", crash_at, 1) if crash_at else None
    await cluster.database.execute("update orders set ended_at = ended_at - interval '30 d'")
    if victim is not None:
        assert await victim.dies()
    await eventually_true(partial(none, cluster, DUE), what="the purge")
    left = "select count(*) from orders where document_left"
    await eventually_true(partial(none, cluster, left), what="that the payloads are gone")


async def everything(cluster: Cluster) -> list[tuple[object, ...]]:
    """Of orders, documents and bookings what may not change."""
    found: list[tuple[object, ...]] = []
    for sql in (
        "select no, order_id, state, history, sequence, attempt, purged_at from orders order by no",
        "select order_id, payload, digest from order_documents order by order_id",
        "select no, n, why from transitions order by no, n",
        "select count(*) from public.bookings",
    ):
        found += [tuple(row) for row in await cluster.database.fetch(sql)]
    return found


async def set_aside(cluster: Cluster, count: int) -> bool:
    return bool(await cluster.database.fetchval("select count(*) = $1 from dead_letters", count))


async def is_processed(cluster: Cluster, key: str) -> bool:
    return (await cluster.states()).get(key) == "processed"
