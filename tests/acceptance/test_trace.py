"""One OpenTelemetry trace per order through every message, as a real receiver gets it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import NamedTuple

import pytest
import pytest_asyncio

from tests.integration.services.lab import WORKFLOWS
from tests.integration.services.workbench import Workbench, new_id
from tests.otlp import HangingCollector, OtlpReceiver, ReceivedSpan
from tests.servers import ServerSet
from tests.services import started
from triumvir.client import Order

SERVICES = (
    ("submitter",),
    ("scheduler",),
    ("supervisor",),
    ("agent", "tests.integration.services.lab:lab"),
)
CANARY = "canary-7f3a"
REPLIES = "scheduler.replies"
LAB = "agent.lab"
POLICIES = '["solo.Any.Any"]\ninitial-retry-interval = "1s"\n'
"""Requests of this workflow alone are sent again soon: each send is a span, and the others are counted."""


pytestmark = pytest.mark.asyncio(loop_scope="module")


class Traced(NamedTuple):
    """What came over the wire, and the services it came from."""

    receiver: OtlpReceiver
    bench: Workbench


@asynccontextmanager
async def _bench(server_set: ServerSet, endpoint: str, **settings: object) -> AsyncIterator[Workbench]:
    """All services, exporting to ``endpoint``. They start in another thread: the receiver runs in this one."""
    with ExitStack() as stack:
        suite = await asyncio.to_thread(
            stack.enter_context,
            started(server_set, *SERVICES, workflows=WORKFLOWS, otlp_endpoint=endpoint, **settings),
        )
        account = await asyncio.to_thread(suite.add_client, "traced")
        async with Workbench(suite, account) as bench:
            yield bench
        for service in suite.running:
            assert await asyncio.to_thread(service.stop) == 0, service.log.read_text()[-2000:]


async def _trace_id(bench: Workbench, order_id: str) -> str:
    trace: str = await bench.db.fetchval("select trace from orders where order_id = $1", order_id)
    return trace[3:35]


def _queue(span: ReceivedSpan) -> str:
    """``send triumvir:agent.lab`` and ``process agent.lab`` are about the same queue."""
    return span.name.rpartition(" ")[2].removeprefix("triumvir:")


def _check_connected(spans: list[ReceivedSpan]) -> None:
    """Every span hangs on another one of the trace, what is processed on what was sent; one is the root."""
    by_id = {span.span_id: span for span in spans}
    roots = [span.name for span in spans if span.parent_id not in by_id]
    assert roots == ["process orders"]
    for span in spans:
        if span.kind == "consumer" and span.name != "process orders":
            parent = by_id[span.parent_id]
            assert (parent.kind, _queue(parent)) == ("producer", _queue(span))
        assert span.start <= span.end


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def traced(server_set: ServerSet, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Traced]:
    """All services, with a receiver for what they export."""
    policies = tmp_path_factory.mktemp("traced") / "policies.toml"
    policies.write_text(POLICIES)
    settings: dict[str, object] = {"step_timeout": 120, "retry_interval": 60, "policy_file": policies}
    async with OtlpReceiver() as receiver, _bench(server_set, receiver.endpoint, **settings) as bench:
        yield Traced(receiver, bench)


@pytest.mark.parametrize(("last", "requests"), [("ok", 3), ("permanent", 5)], ids=["done", "undone"])
async def test_every_message_of_an_order_is_in_its_one_trace(
    traced: Traced, last: str, requests: int
) -> None:
    receiver, bench = traced
    order = await bench.submit("trio", {"c": last, "note": CANARY})
    assert await _end(order) == ("completed" if requests == 3 else "compensated")
    trace = await _trace_id(bench, order.order_id)
    expected = _expected(bench, requests)
    # Each process exports when it likes: the last span to come may be the first that was begun.
    await receiver.wait_until(lambda r: _by_service(r.trace(trace)) >= expected)
    spans = receiver.trace(trace)
    assert _by_service(spans) == expected
    _check_spans(spans, order)
    assert CANARY not in json.dumps([span.attributes for span in spans])


async def test_an_order_goes_on_with_the_trace_that_its_client_began(traced: Traced) -> None:
    receiver, bench = traced
    parent = await _send_with_parent(bench)
    trace = parent[3:35]
    await receiver.wait_until(lambda r: len(r.trace(trace)) == 7)
    begun = [span.name for span in receiver.trace(trace) if span.parent_id == parent[36:52]]
    assert begun == ["process orders"]


async def _end(order: Order) -> str:
    return [status.status async for status in order.statuses()][-1]


async def _send_with_parent(bench: Workbench) -> str:
    """An order whose client has a trace of its own already; its traceparent."""
    parent = f"00-{'ab' * 16}-{'cd' * 8}-01"
    sender, order_id = await bench.sender(), new_id()
    body = {"order_id": order_id, "workflow": "plain", "payload": {}}
    await sender.send(body, headers={"traceparent": parent})
    await sender.hears(order_id=order_id, status="completed")
    assert await _trace_id(bench, order_id) == parent[3:35]
    return parent


def _by_service(spans: list[ReceivedSpan]) -> Counter[tuple[str, str]]:
    return Counter((span.service.removeprefix("triumvir-"), span.name) for span in spans)


def _expected(bench: Workbench, requests: int) -> Counter[tuple[str, str]]:
    """Every span of an order of so many requests, three of them forward."""
    status = f"send triumvir:status.{bench.account.name}"
    return Counter(
        {
            ("submitter", "process orders"): 1,
            ("submitter", status): 1,
            ("scheduler", f"send triumvir:{LAB}"): requests,
            ("agent", f"process {LAB}"): requests,
            ("agent", f"send triumvir:{REPLIES}"): requests,
            ("scheduler", f"process {REPLIES}"): requests,
            ("scheduler", status): 1 if requests == 3 else 2,
        }
    )


def _check_spans(spans: list[ReceivedSpan], order: Order) -> None:
    _check_connected(spans)
    conversations = {span.attributes["messaging.message.conversation_id"] for span in spans}
    assert conversations == {order.key}
    ids = [span.attributes["messaging.message.id"] for span in spans if span.kind == "producer"]
    assert len(set(ids)) == len(ids)


async def test_a_request_sent_again_links_to_its_first_send(traced: Traced) -> None:
    receiver, bench = traced
    order = await bench.submit("solo", {"a": "gate"})
    trace = await _trace_id_of_new(bench, order)
    again = f"send triumvir:{LAB}"
    await receiver.wait_until(lambda r: sum(span.name == again for span in r.trace(trace)) >= 2)
    bench.open_gate(order.order_id)
    assert await _end(order) == "completed"
    first, second = [span for span in receiver.trace(trace) if span.name == again][:2]
    assert first.links == ()
    assert second.links == (first.span_id,)
    assert len(bench.calls(order.order_id)) == 1


async def _trace_id_of_new(bench: Workbench, order: Order) -> str:
    await bench.until_called(order.order_id, "a")
    return await _trace_id(bench, order.order_id)


async def test_f59_a_collector_that_hangs_delays_no_order_and_no_end_of_a_service(
    server_set: ServerSet,
) -> None:
    async with HangingCollector() as collector, _bench(server_set, collector.endpoint) as bench:
        orders = [await bench.submit("trio") for _ in range(10)]
        for order in orders:
            await order.result(timeout=60)
        await asyncio.wait_for(collector.connected.wait(), 60)
