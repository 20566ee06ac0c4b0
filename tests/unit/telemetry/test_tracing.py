"""The traceparent travels whatever happens; garbage changes nothing (F59)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider, sampling
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from triumvir.telemetry import tracing
from triumvir.telemetry.spans import ChosenIds

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
REQUEST = "shop-a/1/charge/do/1"


@pytest.fixture
def exported() -> InMemorySpanExporter:
    exporter, ids = InMemorySpanExporter(), ChosenIds()
    provider = TracerProvider(sampling.ALWAYS_ON, Resource({}), shutdown_on_exit=False, id_generator=ids)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.record_by(provider.get_tracer("t"), ids, 1.0)
    return exporter


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "garbage",
        42,
        b"\xff\xfe",
        GIVEN.upper(),
        GIVEN + "-more",
        GIVEN.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
        GIVEN.replace("b7ad6b7169203331", "0" * 16),
        "ff" + GIVEN[2:],
        GIVEN[:-1],
        "cc" + GIVEN[2:] + "-" + "x" * 600,
    ],
)
def test_a_malformed_traceparent_counts_as_none(header: object) -> None:
    assert tracing.adopt({"traceparent": header}) is None


@pytest.mark.parametrize("header", [GIVEN, GIVEN.encode(), "cc" + GIVEN[2:], "cc" + GIVEN[2:] + "-future"])
def test_a_valid_traceparent_is_adopted_as_version_00(header: object) -> None:
    assert tracing.adopt({"traceparent": header}) == GIVEN


@given(st.one_of(st.text(), st.binary(), st.integers(), st.none(), st.lists(st.text())))
def test_no_header_whatever_raises(header: object) -> None:
    adopted = tracing.adopt({"traceparent": header})
    with tracing.process("orders", "m", "k", adopted) as span:
        assert tracing.is_traceparent(span.traceparent)


@given(st.text(max_size=80))
def test_a_traceparent_that_is_garbage_does_not_raise(text: str) -> None:
    with tracing.span("s", text, links=[text]), tracing.send("x", "y", text, text, text, first=False):
        tracing.first_send(text, text)


@pytest.mark.parametrize("text", ["", "garbage", "x" * 53 + "01", "\ud800" * 53 + "01", GIVEN[:-2]])
def test_a_recorded_span_under_garbage_begins_a_trace(exported: InMemorySpanExporter, text: str) -> None:
    with tracing.span("s", text, links=[text]), tracing.send("x", "y", "m", "k", text, first=False):
        pass
    assert all(span.parent is None and not span.links for span in exported.get_finished_spans())


@pytest.mark.parametrize(("ratio", "flag"), [(0.0, False), (1.0, True)])
def test_the_door_decides_once_whether_an_order_is_traced(ratio: float, flag: bool) -> None:
    tracing.record_nothing(ratio)
    assert tracing.is_sampled(tracing.process("orders", "m", "k", None).traceparent) is flag


def test_without_an_exporter_the_traceparent_travels_unchanged() -> None:
    with tracing.send("triumvir", "agent.payments", REQUEST, "shop-a/1", GIVEN) as span:
        assert span.traceparent == GIVEN


def test_an_unsampled_order_is_not_recorded(exported: InMemorySpanExporter) -> None:
    unsampled = GIVEN[:-2] + "00"
    with tracing.process("orders", "m", "k", unsampled) as span:
        assert span.traceparent == unsampled
    assert exported.get_finished_spans() == ()


def test_without_a_traceparent_the_first_span_is_the_root(exported: InMemorySpanExporter) -> None:
    with tracing.process("orders", "m", "k", None) as span:
        order_trace = span.traceparent
    (root,) = exported.get_finished_spans()
    assert root.parent is None
    assert root.context is not None
    assert tracing.trace_id(order_trace) == format_trace_id(root.context.trace_id)
    assert tracing.is_sampled(order_trace)


def test_spans_follow_the_messaging_conventions(exported: InMemorySpanExporter) -> None:
    with tracing.send("triumvir", "agent.payments", REQUEST, "shop-a/1", GIVEN):
        pass
    (span,) = exported.get_finished_spans()
    assert (span.name, span.kind) == ("send triumvir:agent.payments", SpanKind.PRODUCER)
    assert dict(span.attributes or {}) == {
        "messaging.system": "rabbitmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "triumvir:agent.payments",
        "messaging.message.id": REQUEST,
        "messaging.message.conversation_id": "shop-a/1",
    }


def test_a_retry_links_to_the_first_send_whoever_sent_it(exported: InMemorySpanExporter) -> None:
    with tracing.send("triumvir", "agent.payments", REQUEST, "shop-a/1", GIVEN) as first:
        pass
    with tracing.send("triumvir", "agent.payments", REQUEST, "shop-a/1", GIVEN, first=False) as again:
        pass
    assert first.traceparent == tracing.first_send(GIVEN, REQUEST)
    assert again.traceparent != first.traceparent
    sent, resent = exported.get_finished_spans()
    assert sent.links == ()
    assert [format_span_id(link.context.span_id) for link in resent.links] == [first.traceparent[36:52]]


def test_a_chosen_span_id_is_used_once(exported: InMemorySpanExporter) -> None:
    ids = {tracing.send("x", "y", REQUEST, "k", GIVEN).traceparent for _ in range(2)}
    others = {tracing.process("q", REQUEST, "k", GIVEN).traceparent for _ in range(2)}
    assert len(ids) == 1
    assert len(others) == 2


def test_an_error_is_told_by_its_type_alone(exported: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="card 4111"), tracing.process("q", "m", "k", GIVEN):
        raise ValueError("card 4111")
    (span,) = exported.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "ValueError"
    assert "4111" not in span.to_json()


def test_a_span_ends_once_and_may_have_begun_earlier(exported: InMemorySpanExporter) -> None:
    span = tracing.process("q", "m", "k", GIVEN, start=1_000_000_000)
    span.end()
    span.end()
    span.set("late", "ignored")
    (finished,) = exported.get_finished_spans()
    assert finished.start_time == 1_000_000_000
