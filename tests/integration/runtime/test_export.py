"""Telemetry never breaks work (F59): a collector that is there, away, broken or hanging."""

from __future__ import annotations

import socket

from tests.integration.runtime.conftest import Start
from tests.otlp import HangingCollector, OtlpReceiver

SPANS = 500
"""One request's worth: the two seconds that the end waits are enough for it on a slow machine, too."""


async def test_spans_and_metrics_reach_a_real_receiver_before_the_process_ends(start: Start) -> None:
    async with OtlpReceiver() as receiver:
        specimen = await start("tracer", otlp_endpoint=receiver.endpoint)
        assert await specimen.exit_code() == 0
        await receiver.wait_until(lambda r: len(r.spans) == SPANS and "triumvir.orders.claimed" in r.metrics)
    assert {span.service for span in receiver.spans} == {"triumvir-specimen"}
    assert {span.instance for span in receiver.spans} == {specimen.lines[0]["instance"]}
    assert len({span.trace_id for span in receiver.spans}) == SPANS
    assert {(span.name, span.kind, span.parent_id) for span in receiver.spans} == {
        ("process orders", "consumer", "")
    }


async def test_of_sampled_out_orders_nothing_is_sent(start: Start) -> None:
    async with OtlpReceiver() as receiver:
        specimen = await start("tracer", otlp_endpoint=receiver.endpoint, trace_sample_ratio=0)
        assert await specimen.exit_code() == 0
    assert receiver.spans == []


async def test_f59_a_collector_that_is_away_is_one_warning(start: Start) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        specimen = await start("tracer", otlp_endpoint=f"http://127.0.0.1:{unused.getsockname()[1]}")
        assert await specimen.exit_code() == 0
    assert (
        len([line for line in specimen.lines if line["logger"].startswith(("opentelemetry", "urllib3"))]) == 1
    )


async def test_f59_a_collector_that_refuses_is_one_warning(start: Start) -> None:
    async with OtlpReceiver(status=500) as receiver:
        specimen = await start("tracer", otlp_endpoint=receiver.endpoint)
        assert await specimen.exit_code() == 0
        assert receiver.requests > 0
    assert (
        len([line for line in specimen.lines if line["logger"].startswith(("opentelemetry", "urllib3"))]) == 1
    )


async def test_f59_a_collector_that_hangs_does_not_keep_the_process_from_its_end(start: Start) -> None:
    async with HangingCollector() as collector:
        specimen = await start("tracer", otlp_endpoint=collector.endpoint)
        assert await specimen.exit_code() == 0
        assert collector.connected.is_set()
