"""Two databases, one restored to an earlier time; and no room for what has a document already."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from tests.faults.cluster import STRAIGHT, Cluster
from tests.faults.test_f53_resubmission import refused, submission
from tests.faults.test_two_databases import YOUNG, documents, has_orders, lose_between, send
from tests.waiting import eventually, eventually_true
from triumvir.testing import describe

BEFORE, AFTER = 5, 8


@pytest.mark.slow
async def test_a_state_repository_restored_to_an_earlier_time_gets_the_orders_since_from_their_documents(
    two_databases: Cluster,
) -> None:
    """By the commands of the how-to page. They run again under their keys, so that nothing happens twice."""
    cluster = two_databases
    cluster.tune(lone_document_age=YOUNG)
    await cluster.start()
    await ended(cluster, BEFORE)
    dump = cluster.folder / "states.dump"
    await run("pg_dump", "--format=custom", f"--file={dump}", cluster.settings.database_url)
    await ended(cluster, AFTER)
    await asyncio.gather(*(cluster.services[kind].stop() for kind in STRAIGHT))
    await restore(cluster, dump)
    assert len(await cluster.states()) == BEFORE
    for kind in STRAIGHT:
        await cluster.services[kind].restart()
    await eventually_true(lambda: has_orders(cluster, BEFORE + AFTER), within=60, what="the orders since")
    findings = await cluster.findings()
    # What was lost: calls that were made before are not written down, and clients are told anew, from `received` on.
    assert not [finding for finding in findings if finding.rule not in ("A5", "A6")], describe(findings)
    assert set((await cluster.states()).values()) == {"processed"}
    dump.unlink()


async def test_without_room_a_new_order_is_refused_unwritten_and_a_document_has_its_order_all_the_same(
    two_databases: Cluster,
) -> None:
    cluster = two_databases
    cluster.tune(max_open_orders="1")
    (lone,) = await lose_between(cluster, 1, "scheduler")
    await (await cluster.add("submitter", "second submitter")).ready()
    open_one = submission(cluster, "open", {"ask": {}}, "submit")
    await send(cluster, [open_one])
    await eventually_true(lambda: has_orders(cluster, 1), what="an open order")
    await send(cluster, [submission(cluster, "new", {"ask": {}}, "submit")])
    await eventually(lambda: refused(cluster), what="the refusal")
    (told,) = refused(cluster).values()
    assert told.startswith("full")
    assert await documents(cluster, "select count(*) from order_documents where order_id = 'new'") == 0
    await send(cluster, [lone])
    await eventually_true(lambda: has_orders(cluster, 2), what="the order of the document")
    await cluster.start("agent", "supervisor")
    await cluster.assert_sound(expected_dead=[f"{cluster.client_name}/new/submit"])


async def ended(cluster: Cluster, count: int) -> None:
    for order in await cluster.load.submit(count, "good"):
        await order.result(timeout=60)


async def restore(cluster: Cluster, dump: Path) -> None:
    await cluster.database.execute("drop schema triumvir cascade; drop table public.bookings")
    await run("pg_restore", "--single-transaction", f"--dbname={cluster.settings.database_url}", str(dump))
    await cluster.reconnect()


async def run(*command: str) -> None:
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True, timeout=60)
