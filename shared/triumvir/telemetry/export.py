"""Where telemetry goes: spans and metrics by OTLP over HTTP when configured, metrics by ``/metrics`` always.

A collector that is away or hangs costs nothing but its data: sends happen in threads of their own with short
timeouts, what does not fit in the queue is dropped, and the end waits for two seconds at most.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import generate_latest

from triumvir.settings import Settings
from triumvir.telemetry import logs, metrics, tracing

TIMEOUT_SECONDS: Final = 2.0
METRICS_EVERY_SECONDS: Final = 15.0

_registries: list[CollectorRegistry] = []
_shutdowns: list[Callable[[], object]] = []


def configure(settings: Settings, service: str, instance: str) -> None:
    """Logs, traces and metrics of this process. Call once, before anything else is started."""
    logs.configure(settings, service, instance)
    resource = Resource.create({"service.name": f"triumvir-{service}", "service.instance.id": instance})
    _configure_tracing(settings, resource)
    configure_metrics(settings.otlp_endpoint, resource)


def exposition() -> bytes:
    """All metrics in the Prometheus text format; empty before :func:`configure`."""
    return b"".join(map(generate_latest, _registries))


def shutdown(timeout: float = TIMEOUT_SECONDS) -> bool:
    """Send what is left, for ``timeout`` seconds at most. False: not everything was sent."""
    tracing.record_nothing(0.0)
    threads = [threading.Thread(target=stop, daemon=True, name="telemetry-shutdown") for stop in _shutdowns]
    _shutdowns.clear()
    for thread in threads:
        thread.start()
    return _joined(threads, timeout)


def _joined(threads: list[threading.Thread], timeout: float) -> bool:
    finished = threading.Event()

    def wait_for_all() -> None:
        for thread in threads:
            thread.join()
        finished.set()

    threading.Thread(target=wait_for_all, daemon=True, name="telemetry-shutdown").start()
    return finished.wait(timeout)


def _configure_tracing(settings: Settings, resource: Resource) -> None:
    if settings.otlp_endpoint is None:
        tracing.record_nothing(settings.trace_sample_ratio)
        return
    from triumvir.telemetry.spans import span_provider

    provider, ids = span_provider(_url(settings.otlp_endpoint, "traces"), resource, TIMEOUT_SECONDS)
    tracing.record_by(provider.get_tracer("triumvir"), ids, settings.trace_sample_ratio)
    _shutdowns.append(provider.shutdown)


def configure_metrics(endpoint: str | None, resource: Resource) -> None:
    """Make every metric readable: by :func:`exposition` always, by OTLP when ``endpoint`` is given."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    _registries[:] = [registry]
    readers: list[MetricReader] = [PrometheusMetricReader(scope_info_enabled=False, registry=registry)]
    if endpoint is not None:
        readers.append(_otlp_metrics(endpoint))
    provider = MeterProvider(readers, resource, shutdown_on_exit=False)
    metrics.instrument(provider.get_meter("triumvir"))
    _shutdowns.append(provider.shutdown)


def _otlp_metrics(endpoint: str) -> MetricReader:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    exporter = OTLPMetricExporter(_url(endpoint, "metrics"), timeout=TIMEOUT_SECONDS)
    return PeriodicExportingMetricReader(exporter, METRICS_EVERY_SECONDS * 1000, TIMEOUT_SECONDS * 1000)


def _url(endpoint: str, signal: str) -> str:
    return f"{endpoint.rstrip('/')}/v1/{signal}"
