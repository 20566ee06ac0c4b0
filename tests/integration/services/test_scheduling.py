"""Holds, windows, several of every service, and rows that no one order's fault may spread from."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
from collections.abc import Awaitable
from typing import Any

from tests.integration.services.workbench import Workbench, new_id
from tests.waiting import eventually
from triumvir.client import Order

GHOST = "tests.integration.services.lab:ghost"


async def test_an_order_for_an_absent_agent_is_held_once_and_runs_when_the_agent_comes(
    bench: Workbench,
) -> None:
    order = await bench.submit("ghost")
    statuses = order.statuses()
    assert [(await anext(statuses)).status for _ in range(2)] == ["received", "held"]
    assert (await bench.detail(order.order_id)).order.held_by == "agent:ghost"
    agent = await asyncio.to_thread(bench.suite.start, "agent", GHOST)
    assert (await anext(statuses)).status == "completed"
    detail = await bench.detail(order.order_id)
    assert (detail.order.attempt, detail.order.failure_count) == (1, 0)
    assert await asyncio.to_thread(agent.stop) == 0


async def test_an_agent_is_sent_no_more_than_its_window_and_the_rest_waits_untold(bench: Workbench) -> None:
    await _gone(bench)
    agent = await asyncio.to_thread(bench.suite.start, "agent", GHOST, slots=1)
    await _seen(bench)
    orders = [await bench.submit("ghost", {"a": "gate"}) for _ in range(8)]
    held = "select count(*) from orders where held_by = 'window:ghost'"
    await eventually(lambda: bench.db.fetchval(held), what="orders held by the window")
    under_way = "select count(*) from orders where workflow = 'ghost' and locked_by is not null"
    assert await bench.db.fetchval(under_way) <= 2
    for order in orders:
        bench.open_gate(order.order_id)
    for order in orders:
        assert await bench.told(order) == ["received", "completed"]
    assert await asyncio.to_thread(agent.stop) == 0


async def test_requests_that_no_agent_began_burn_nothing_and_are_never_begun_later(bench: Workbench) -> None:
    agent = await asyncio.to_thread(bench.suite.start, "agent", GHOST, instance_lease=30)
    await _seen(bench)
    agent.send(signal.SIGSTOP)
    order = await bench.submit("hasty-ghost")
    alert = await bench.alert(order.key)
    assert alert["kind"] == "never-begun"
    detail = await bench.detail(order.order_id)
    assert (detail.order.failure_count, bench.calls(order.order_id)) == (0, [])
    agent.send(signal.SIGCONT)
    assert await bench.told(order) == ["received", "completed"]
    (call,) = bench.calls(order.order_id)
    assert call.attempt > 3, "the requests of the attempts before it were closed to every agent"
    assert await asyncio.to_thread(agent.stop) == 0


async def _gone(bench: Workbench) -> None:
    """Until the scheduler has seen that the agent of the test before is gone: its slots are not counted any more."""

    async def held() -> bool:
        await bench.submit("ghost")
        return bool(await bench.db.fetchval("select count(*) from orders where held_by = 'agent:ghost'"))

    await eventually(held, what="an order that is held")


async def _seen(bench: Workbench) -> None:
    """Until the scheduler has seen that the agent is there: an order then runs without being held."""

    async def runs() -> bool:
        return await bench.told(await bench.submit("ghost")) == ["received", "completed"]

    await eventually(runs, what="an order that is not held")


async def test_two_of_every_service_share_the_work_and_every_effect_is_there_once(bench: Workbench) -> None:
    kinds = [("submitter",), ("scheduler",), ("supervisor",), ("agent", "tests.integration.services.lab:lab")]
    second = [bench.suite.launch(*kind) for kind in kinds]
    for service in second:
        await asyncio.to_thread(service.wait_until_ready)
    payloads: list[dict[str, Any]] = [{}, {"c": "permanent"}, {"a": ["transient", "ok"]}]
    orders = [await bench.submit("trio", payloads[n % 3]) for n in range(120)]
    ends = await asyncio.gather(*(_end(order) for order in orders))
    assert ends == ["completed" if n % 3 != 1 else "compensated" for n in range(120)]
    for n, order in enumerate(orders):
        made = [call.step for call in bench.calls(order.order_id)]
        assert made == [["a", "b", "c"], ["a", "b", "c", "un-b", "un-a"], ["a", "a", "b", "c"]][n % 3]
    assert [await asyncio.to_thread(service.stop) for service in second] == [0, 0, 0, 0]
    await _quiet(bench)


async def _end(order: Order) -> str:
    names = [status.status async for status in order.statuses()]
    return names[-1]


async def _quiet(bench: Workbench) -> None:
    """Nothing is left to publish, and admission counts the orders that are open."""
    await eventually(lambda: _is_zero(bench, "select count(*) from outbox"), what="an empty outbox")
    open_orders = (
        "select count(*) from orders where state not in ('processed', 'compensated', 'cancelled', 'closed')"
    )
    admitted = "select coalesce(sum(open), 0)::bigint from admission where scope = 'orders'"
    await eventually(
        lambda: _is_zero(bench, f"select ({open_orders}) - ({admitted})"), what="the count of open orders"
    )


async def _is_zero(bench: Workbench, query: str) -> bool:
    count: int = await bench.db.fetchval(query)
    return count == 0


async def test_urgent_orders_overtake_and_the_rank_is_what_was_asked_for(bench: Workbench) -> None:
    urgent = await bench.submit("missing", priority=10)
    idle = await bench.submit("missing", priority=-10)
    for order in (urgent, idle):
        statuses = order.statuses()
        assert [(await anext(statuses)).status for _ in range(2)] == ["received", "held"]
    ranks = [
        await bench.db.fetchval("select rank from orders where order_id = $1", order.order_id)
        for order in (urgent, idle)
    ]
    assert ranks[0] < ranks[1]


async def _insert_order(bench: Workbench, workflow: str, attempt: int = 0, held_by: str | None = None) -> str:
    """A row that no submitter wrote."""
    order_id = new_id()
    await bench.db.execute(
        "with d as (insert into order_documents (client, order_id, payload, digest)"
        " values ($1, $2, '{}', $4) returning client, order_id, digest),"
        " o as (insert into orders (client, order_id, workflow, version, digest, rank, status_queue, attempt,"
        " held_by, sequence, history) select client, order_id, $3, 1, digest, 0, $5, $6, $7, 1, 1 from d"
        " returning no)"
        " insert into transitions (no, n, at, who, from_state, to_state, why, status, sequence)"
        " select no, 1, now(), 'test', 'pending', 'pending', 'received', 'received', 1 from o",
        bench.account.name,
        order_id,
        workflow,
        secrets.token_bytes(32),
        f"status.{bench.account.name}",
        attempt,
        held_by,
    )
    return order_id


async def test_an_order_that_cannot_be_written_rests_with_an_alert_and_its_neighbours_run(
    bench: Workbench,
) -> None:
    poison = await _insert_order(bench, "solo", attempt=2**31 - 1)
    neighbours = [await bench.submit("solo") for _ in range(5)]
    for order in neighbours:
        await order.result(timeout=60)
    detail = await bench.until_state(poison, "error")
    assert "DataError" in detail.history[-1].why
    assert (await bench.alert(f"{bench.account.name}/{poison}"))["kind"] == "order-halted"


async def test_a_cancel_that_cannot_be_read_is_taken_and_keeps_no_other_waiting(bench: Workbench) -> None:
    orders = [await bench.submit("missing") for _ in range(4)]
    for order in orders:
        statuses = order.statuses()
        assert [(await anext(statuses)).status for _ in range(2)] == ["received", "held"]
    for order, data in zip(
        orders, ('{"reason":"\\udc80"}', '{"reason":"a\\u0000b"}', "[1]", None), strict=True
    ):
        await bench.db.execute(
            "insert into commands (client, order_id, message_id, kind, data) values ($1, $2, $2, 'cancel', $3)",
            bench.account.name,
            order.order_id,
            data,
        )
    for order in orders:
        assert (await bench.told(order))[-1] == "cancelled"


async def test_a_cancel_that_cannot_be_written_sets_its_order_aside_and_no_other(bench: Workbench) -> None:
    poison, good = [await bench.submit("missing") for _ in range(2)]
    for order in (poison, good):
        statuses = order.statuses()
        assert [(await anext(statuses)).status for _ in range(2)] == ["received", "held"]
    await bench.db.execute(
        "alter table orders add constraint no_cancel check (state <> 'cancelled' or order_id <> '"
        + poison.order_id
        + "') not valid"
    )
    await asyncio.gather(poison.cancel(), good.cancel())
    assert (await bench.told(good))[-1] == "cancelled"
    detail = await bench.until_state(poison.order_id, "error")
    assert "CheckViolationError" in detail.history[-1].why
    await bench.db.execute("alter table orders drop constraint no_cancel")


async def test_an_order_whose_document_is_gone_rests_with_an_alert_and_its_neighbours_run(
    bench: Workbench,
) -> None:
    lost = await _insert_order(bench, "solo", held_by="test")
    await bench.db.execute("delete from order_documents where order_id = $1", lost)
    neighbours = [await bench.submit("solo", {"a": "gate"}) for _ in range(3)]
    await bench.db.execute("update orders set held_by = null where order_id = $1", lost)
    detail = await bench.until_state(lost, "error")
    assert detail.history[-1].why == "the order's document is missing"
    for order in neighbours:
        bench.open_gate(order.order_id)
        await order.result(timeout=60)


async def test_a_definition_that_cannot_be_read_halts_its_own_orders_and_no_other(bench: Workbench) -> None:
    await bench.db.execute(
        "insert into workflows (name, version, definition, digest) values ('odd', 1, '{\"name\":\"odd\"}', $1)"
        " on conflict do nothing",
        secrets.token_bytes(32),
    )
    refused = await bench.submit("odd")
    never_applied = await _insert_order(bench, "never-applied")
    for order in [await bench.submit("trio") for _ in range(3)]:
        await order.result(timeout=60)
    for order_id in (refused.order_id, never_applied):
        await bench.until_state(order_id, "error")
        await bench.alert(f"{bench.account.name}/{order_id}")
    await bench.db.execute("delete from workflows where name = 'odd'")


async def _is(found: Awaitable[int], expected: int) -> bool:
    return await found == expected


async def test_an_outbox_row_that_cannot_be_read_keeps_no_neighbour_back(bench: Workbench) -> None:
    order = await bench.submit("solo")
    await order.result(timeout=60)
    no = (await bench.detail(order.order_id)).order.no
    lapsed = "insert into outbox (lease, refs) values (now() - interval '1 hour', $1) returning id"
    odd = [
        await bench.db.fetchval(lapsed, json.dumps(refs))
        for refs in (
            [["dance", 1]],
            [["request", 2**40, 1, "do", 1]],
            [["status", no, 99]],
            [["status", "x"]],
        )
    ]
    good = await bench.db.fetchval(lapsed, json.dumps([["status", no, 1]]))

    async def is_sent() -> bool:
        return await bench.db.fetchval("select 1 from outbox where id = $1", good) is None

    await eventually(is_sent, what="the sweep of the good row")
    put_off = "select count(*) from outbox where id = any($1) and lease > now() + interval '20 s'"
    await eventually(lambda: _is(bench.db.fetchval(put_off, odd), 4), what="the odd rows put off")
    for outbox_id in odd:
        alert = await bench.alert(f'"subject": "{outbox_id}"')
        assert alert["kind"] == "outbox-unreadable"
    await bench.db.execute("delete from outbox where id = any($1)", odd)


async def test_metrics_and_health_pages_of_every_service_answer(bench: Workbench) -> None:
    for service in bench.suite.running:
        if service.exit_code() is None:
            for page in ("/livez", "/readyz", "/metrics"):
                status, body = await asyncio.to_thread(service.get, page)
                assert status == 200, (service.name, page, body)
