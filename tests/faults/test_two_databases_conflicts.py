"""Two databases that do not say the same: a conflict is found on either side, and a payload that is not the order's is
never handed to an agent.
"""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from tests.faults.cluster import Cluster
from tests.faults.test_f53_resubmission import refused, submission
from tests.faults.test_two_databases import documents, lose_between, send
from tests.waiting import eventually, eventually_true
from triumvir.store import operators


async def test_a_conflict_with_a_document_that_has_no_order_yet_is_refused_and_the_first_one_runs(
    two_databases: Cluster,
) -> None:
    cluster = two_databases
    (lone,) = await lose_between(cluster, 1, "scheduler", "agent")
    await (await cluster.add("submitter", "second submitter")).ready()
    await send(cluster, [submission(cluster, "lone-0", {"ask": {}, "other": 1}, "other")])
    await eventually(lambda: refused(cluster), what="the refusal")
    assert not await cluster.states(), "a document without a state record is no order"
    await (await cluster.add("supervisor")).ready()
    await eventually_true(lambda: processed(cluster, "lone-0"), within=60, what="the first one processed")
    await assert_refused(cluster, f"{lone.correlation_id}/other")
    assert await documents(cluster, "select payload from order_documents") == '{"ask": {}}'


async def test_a_conflict_with_an_order_whose_document_is_lost_is_refused_and_writes_none(
    two_databases: Cluster,
) -> None:
    """The same submission again is answered, and puts the document back."""
    cluster = two_databases
    await cluster.start()
    order = await cluster.load.submit_one("lost")
    await order.result(timeout=60)
    await lose_document(cluster, "lost")
    await send(cluster, [submission(cluster, "lost", {"ask": {}, "other": 1}, "other")])
    await eventually(lambda: refused(cluster), what="the refusal")
    assert await documents(cluster, "select count(*) from order_documents") == 0
    await send(cluster, [submission(cluster, "lost", {"ask": {}}, "submit")])
    await eventually_true(lambda: documents(cluster, "select count(*) > 0 from order_documents"))
    await assert_refused(cluster, f"{order.key}/other")


@pytest.mark.parametrize(
    "change",
    [
        "delete from order_documents",
        "update order_documents set payload = '{\"ask\":7}', digest = sha256('other')",
    ],
    ids=["lost", "another's"],
)
async def test_an_order_whose_document_is(two_databases: Cluster, change: str) -> None:
    """...rests in error with an alert before anything is called; its neighbours go on. A lost one is put back by the
    same submission, and the order goes on once it is retried.
    """
    cluster = two_databases
    await cluster.start("submitter", "scheduler", "supervisor")
    waiting = await cluster.load.submit_one("waiting")
    await eventually_true(lambda: held(cluster), what="the order held for its agent")
    await execute(cluster, change)
    await cluster.services["scheduler"].restart()  # it has read the document already
    await cluster.start("agent")
    fine = await cluster.load.submit_one("fine")
    await fine.result(timeout=60)
    await eventually(lambda: waiting.key in cluster.alerts, within=60, what="the alert")
    assert (await cluster.states())[waiting.key] == "error"
    assert not [call for call in cluster.downstream.calls() if call.order == waiting.key]
    why = "select why from transitions where to_state = 'error'"
    assert await cluster.database.fetchval(why) == "the order's document is missing"
    found = [str(finding) for finding in await cluster.findings()]
    said = "its document is missing" if change.startswith("delete") else "is that of another submission"
    assert len(found) == 1, found
    assert said in found[0]
    if not change.startswith("delete"):
        return
    await send(cluster, [submission(cluster, "waiting", {"ask": {}}, "submit")])
    await eventually_true(lambda: documents(cluster, "select count(*) = 2 from order_documents"))
    await retry(cluster, waiting.key)
    await eventually_true(lambda: processed(cluster, "waiting"), within=60, what="the order processed")
    await cluster.assert_sound()


async def assert_refused(cluster: Cluster, message_id: str) -> None:
    """This one alone: a dead letter, an alert without an order, an answer; and nothing else is wrong."""
    await cluster.assert_sound(expected_dead=[message_id])
    assert list(refused(cluster)) == [message_id]
    assert "conflict" in refused(cluster)[message_id]
    assert await cluster.database.fetchval("select array_agg(reason) from dead_letters") == ["conflict"]
    assert "" in cluster.alerts


async def retry(cluster: Cluster, key: str) -> None:
    """As ``triumvir orders retry`` asks for it."""
    client, _, order_id = key.partition("/")
    async with operators.connect(cluster.settings) as connection:
        fence = await connection.fetchval("select fence from orders where order_id = $1", order_id)
        await operators.ask_move(
            connection, client, order_id, "retry", who="operator:test", reason=None, fence=fence
        )


async def lose_document(cluster: Cluster, order_id: str) -> None:
    await execute(cluster, "delete from order_documents where order_id = $1", order_id)


async def execute(cluster: Cluster, sql: str, *values: Any) -> None:
    """On the orders database."""
    schema = {"search_path": cluster.settings.database_schema}
    connection = await asyncpg.connect(cluster.settings.orders_dsn, server_settings=schema)
    await connection.execute(sql, *values)
    await connection.close()


async def processed(cluster: Cluster, order_id: str) -> bool:
    return (await cluster.states()).get(f"{cluster.client_name}/{order_id}") == "processed"


async def held(cluster: Cluster) -> bool:
    return bool(
        await cluster.database.fetchval("select exists (select from orders where held_by is not null)")
    )
