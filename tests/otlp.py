"""A real OTLP over HTTP receiver that decodes what it gets, and a collector that accepts and never answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True)
class ReceivedSpan:
    """One span as it came over the wire; ids in hex, ``parent_id`` empty for a root, ``links`` as span ids."""

    name: str
    service: str
    instance: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: str
    attributes: dict[str, object]
    links: tuple[str, ...]
    failed: bool
    start: int
    end: int


class OtlpReceiver:
    """``async with OtlpReceiver() as receiver``: export to ``receiver.endpoint``, then look at ``spans``."""

    def __init__(self, status: int = 200) -> None:
        self.spans: list[ReceivedSpan] = []
        self.metrics: set[str] = set()
        self.requests = 0
        self.endpoint = ""
        self._status = status
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/v1/traces", self._traces)
        app.router.add_post("/v1/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.endpoint = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def trace(self, trace_id: str) -> list[ReceivedSpan]:
        """The spans of one trace, by start."""
        return sorted((span for span in self.spans if span.trace_id == trace_id), key=lambda span: span.start)

    async def wait_until(self, arrived: Callable[[OtlpReceiver], bool], seconds: float = 60.0) -> None:
        """Until ``arrived`` is true of this receiver. TimeoutError names what has come so far."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: arrived(self))
        except TimeoutError:
            names = [span.name for span in self.spans]
            raise TimeoutError(
                f"{self.requests} requests, spans {names}, {len(self.metrics)} metrics"
            ) from None

    async def _traces(self, request: web.Request) -> web.Response:
        message = ExportTraceServiceRequest.FromString(await request.read())
        for group in message.resource_spans:
            resource = _attributes(list(group.resource.attributes))
            self.spans += [_received(span, resource) for scope in group.scope_spans for span in scope.spans]
        return await self._answer()

    async def _metrics(self, request: web.Request) -> web.Response:
        message = ExportMetricsServiceRequest.FromString(await request.read())
        self.metrics |= {
            metric.name
            for group in message.resource_metrics
            for scope in group.scope_metrics
            for metric in scope.metrics
        }
        return await self._answer()

    async def _answer(self) -> web.Response:
        async with self._changed:
            self.requests += 1
            self._changed.notify_all()
        return web.Response(status=self._status)


class HangingCollector:
    """Accepts every connection, reads, never answers."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.connected = asyncio.Event()
        self._server: asyncio.Server
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.endpoint = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()

    async def _accept(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.connected.set()


def _received(span: Span, resource: dict[str, object]) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        service=str(resource["service.name"]),
        instance=str(resource["service.instance.id"]),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        attributes=_attributes(list(span.attributes)),
        links=tuple(link.span_id.hex() for link in span.links),
        failed=span.status.code == span.status.STATUS_CODE_ERROR,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
    )


def _attributes(pairs: list[KeyValue]) -> dict[str, object]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)
