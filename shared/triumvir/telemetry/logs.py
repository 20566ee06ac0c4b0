"""Structured logs: one JSON object a line on standard error, with service, order and trace, without secrets."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, Final, TextIO

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from triumvir.settings import Settings
from triumvir.telemetry import metrics
from triumvir.telemetry.redaction import Redactor, passwords_in

_OURS: Final = frozenset({"timestamp", "level", "logger", "service", "instance"})
"""Fields that this module writes itself; never redacted."""
_FIRST: Final = ("timestamp", "level", "event", "order", "trace")
_RATIONED: Final = ("opentelemetry", "urllib3")
_RATION_SECONDS: Final = 60.0
_TALKATIVE: Final = ("aiormq", "aio_pika")
"""They log what they raise as well."""

log_context = structlog.contextvars.bound_contextvars
"""``with log_context(order=key, trace=traceparent):`` adds these fields to every line within."""

_redactors: list[Redactor] = [Redactor()]


def get_logger(name: str) -> FilteringBoundLogger:
    """A logger called ``name``: ``log.info(events.ORDER_ACCEPTED, order=key, trace=traceparent)``.

    Pass the order key as ``order`` and the traceparent (or trace id) as ``trace``, or bind them for a stretch
    of code by :data:`log_context`. A line costs some 25 µs: what happens to every order belongs to DEBUG.
    """
    logger: FilteringBoundLogger = structlog.get_logger(name)
    return logger


def configure(
    settings: Settings,
    service: str,
    instance: str,
    stream: TextIO | None = None,
    *,
    broker_library: bool = True,
) -> None:
    """Send everything, the libraries' own logging at WARNING included, through one renderer to ``stream``.

    ``broker_library``: whether what the broker's library says of the errors that it raises is wanted as well.
    """
    stream = stream or sys.stderr
    _redactors[:] = [Redactor(_known_secrets(settings))]
    processors = [*_processors({"service": service, "instance": instance}), _in_order]
    renderer = (
        _json_line if settings.log_format == "json" else structlog.dev.ConsoleRenderer(colors=stream.isatty())
    )
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.log_level)),
        logger_factory=lambda *names: _LineLogger(stream, *names),
        cache_logger_on_first_use=False,
    )
    _route_standard_logging(stream, processors, renderer)
    for library in _TALKATIVE:
        logging.getLogger(library).setLevel(logging.NOTSET if broker_library else logging.CRITICAL)


def configure_as_library() -> None:
    """For a process that is not ours (a client's): hand everything to the standard library's logging, unless
    the application has configured structlog itself."""
    if not structlog.is_configured():
        structlog.configure(
            processors=[*_processors({}), structlog.stdlib.render_to_log_kwargs],
            wrapper_class=structlog.stdlib.BoundLogger,
            logger_factory=structlog.stdlib.LoggerFactory(),
        )


def redact(text: str) -> str:
    """``text`` without secrets, for whatever else is shown to people."""
    return _redactors[0].text(text)


def _known_secrets(settings: Settings) -> set[str]:
    urls = (
        settings.broker_url,
        settings.management_url,
        settings.database_url,
        settings.orders_dsn,
        settings.otlp_endpoint,
    )
    return {word for url in urls for word in passwords_in(url or "")}


def _processors(identity: dict[str, str]) -> list[Processor]:
    def identify(logger: Any, _: str, event: EventDict) -> EventDict:
        if isinstance(logger, _LineLogger):
            event["logger"] = logger.name
        return {**event, **identity}

    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        identify,
        _shorten_trace,
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        _redact,
    ]


def _redact(_: Any, __: str, event: EventDict) -> EventDict:
    entry = _redactors[0].entry
    return {key: value if key in _OURS else entry(key, value) for key, value in event.items()}


def _in_order(_: Any, __: str, event: EventDict) -> EventDict:
    """What people look for first comes first."""
    return {**{key: event[key] for key in _FIRST if key in event}, **event}


def _shorten_trace(_: Any, __: str, event: EventDict) -> EventDict:
    """A traceparent (``00-<trace id>-<span id>-01``) is shown by its trace id."""
    trace = event.get("trace")
    if isinstance(trace, str) and len(trace) == 55 and trace[2] == "-":
        event["trace"] = trace[3:35]
    return event


def _json_line(_: Any, __: str, event: MutableMapping[str, Any]) -> str:
    try:
        return orjson.dumps(event).decode()
    except TypeError:  # lone surrogates and integers beyond 64 bits
        return json.dumps(event, default=str)


class _LineLogger:
    """Writes one line per call. A closed or full standard error loses the line, never the work."""

    def __init__(self, stream: TextIO, name: str = "") -> None:
        self.name = name
        self._stream = stream

    def msg(self, line: str) -> None:
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            metrics.LOG_LINES_LOST.add(1)

    debug = info = warning = warn = error = critical = exception = fatal = log = msg


class Ration(logging.Filter):
    """Lets one record a minute through of libraries that repeat themselves while a collector is away."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._next = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith(_RATIONED):
            return True
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + _RATION_SECONDS
        return True


class _StandardHandler(logging.StreamHandler[TextIO]):
    """The one handler that is ours, so that configuring again replaces it."""


def _route_standard_logging(stream: TextIO, processors: list[Processor], renderer: Processor) -> None:
    handler = _StandardHandler(stream)
    handler.addFilter(Ration())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *processors],
        )
    )
    root = logging.getLogger()
    root.handlers = [old for old in root.handlers if not isinstance(old, _StandardHandler)] + [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    logging.raiseExceptions = False
