"""The exporting tracer; imported only when an OTLP endpoint is configured."""

from __future__ import annotations

import threading
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider, sampling
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

EVERY_SECONDS: Final = 1.0
QUEUE: Final = 8192


class ChosenIds(RandomIdGenerator):
    """Random ids, except that each thread may choose the id of the span it starts next."""

    def __init__(self) -> None:
        self._next = threading.local()

    def choose(self, span_id: int | None) -> None:
        self._next.span_id = span_id

    def generate_span_id(self) -> int:
        chosen: int | None = getattr(self._next, "span_id", None)
        self._next.span_id = None
        return chosen or super().generate_span_id()


def span_provider(url: str, resource: Resource, timeout: float) -> tuple[TracerProvider, ChosenIds]:
    """A provider that sends ended spans to ``url`` from its own thread, each within ``timeout`` seconds."""
    ids = ChosenIds()
    provider = TracerProvider(sampling.ALWAYS_ON, resource, shutdown_on_exit=False, id_generator=ids)
    exporter = OTLPSpanExporter(url, timeout=timeout)
    provider.add_span_processor(BatchSpanProcessor(exporter, QUEUE, EVERY_SECONDS * 1000))
    return provider, ids
