"""One trace per order through every message: W3C traceparent in headers, its text in ``orders.trace``.

The traceparent travels whether or not this process exports spans; its sampled flag is decided once per
order, at the door. A span of an unsampled order, or in a process without an OTLP endpoint, is a small object
that only carries the traceparent on. No payload, no error text goes into a span: types, names and ids only.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

from opentelemetry import trace as otel
from opentelemetry.trace import SpanKind

TRACEPARENT_HEADER: Final = "traceparent"

# the OpenTelemetry conventions for messaging
MESSAGING_SYSTEM: Final = "messaging.system"
MESSAGING_OPERATION_NAME: Final = "messaging.operation.name"
MESSAGING_OPERATION_TYPE: Final = "messaging.operation.type"
MESSAGING_DESTINATION_NAME: Final = "messaging.destination.name"
MESSAGING_MESSAGE_ID: Final = "messaging.message.id"
MESSAGING_MESSAGE_CONVERSATION_ID: Final = "messaging.message.conversation_id"
ERROR_TYPE: Final = "error.type"

_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
)
_VERSION_0_LENGTH: Final = 55
_SAMPLED: Final = frozenset(f"{flags:02x}" for flags in range(1, 256, 2))

Attributes = Mapping[str, str | float | bool]


class SpanIds(Protocol):
    """What the exporting tracer takes span ids from: the next one can be chosen."""

    def choose(self, span_id: int | None) -> None: ...


@dataclass(slots=True)
class _Recording:
    tracer: otel.Tracer | None = None
    ids: SpanIds | None = None
    sample_ratio: float = 1.0


_recording = _Recording()


def record_nothing(sample_ratio: float) -> None:
    """Carry traceparents on, record no spans; ``sample_ratio`` of the orders begun here are marked sampled."""
    _recording.tracer, _recording.ids, _recording.sample_ratio = None, None, sample_ratio


def record_by(tracer: otel.Tracer, ids: SpanIds, sample_ratio: float) -> None:
    """Record the spans of sampled orders by ``tracer``, whose provider takes its ids from ``ids``."""
    _recording.tracer, _recording.ids, _recording.sample_ratio = tracer, ids, sample_ratio


def new_traceparent(sampled: bool) -> str:
    """A traceparent for an order that came without one."""
    return f"00-{os.urandom(16).hex()}-{os.urandom(8).hex()}-{'01' if sampled else '00'}"


def adopt(headers: Mapping[str, object]) -> str | None:
    """The traceparent that a message came with; None when it has none or a malformed one."""
    value = headers.get(TRACEPARENT_HEADER)
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    return f"00{value[2:_VERSION_0_LENGTH]}" if isinstance(value, str) and is_traceparent(value) else None


def is_traceparent(text: str) -> bool:
    """Whether ``text`` is a W3C traceparent; of later versions the first four fields count."""
    if len(text) > 512 or _TRACEPARENT.fullmatch(text) is None:
        return False
    return len(text) == _VERSION_0_LENGTH or not text.startswith("00")


def is_sampled(traceparent: str) -> bool:
    """Whether the order of this traceparent is traced."""
    return traceparent[53:55] in _SAMPLED


def trace_id(traceparent: str) -> str:
    """The 32 hex digits by which logs and trace viewers name the order's trace."""
    return traceparent[3:35]


class Span:
    """One unit of work of a trace. ``traceparent`` goes into the messages it sends.

    As a context manager it ends with the block, in error if the block raises; else call :meth:`end`.
    """

    __slots__ = ("_span", "traceparent")

    def __init__(self, traceparent: str, span: otel.Span | None = None) -> None:
        self.traceparent = traceparent
        self._span = span

    def set(self, key: str, value: str | float | bool) -> None:
        """Add an attribute: a name or an id, never a payload."""
        if self._span is not None:
            self._span.set_attribute(key, value)

    def fail(self, error: BaseException | str) -> None:
        """Mark it failed by the type of ``error`` (or a short word); its text may hold payload and stays out."""
        if self._span is not None:
            kind = error if isinstance(error, str) else type(error).__qualname__
            self._span.set_attribute(ERROR_TYPE, kind)
            self._span.set_status(otel.StatusCode.ERROR, kind)

    def end(self) -> None:
        """It is over; more calls change nothing."""
        if self._span is not None:
            self._span.end()
            self._span = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.fail(error)
        self.end()


def span(
    name: str,
    traceparent: str | None,
    kind: SpanKind = SpanKind.INTERNAL,
    attributes: Attributes | None = None,
    start: int | None = None,
    links: Iterable[str] = (),
    span_id: str | None = None,
) -> Span:
    """Begin a span under ``traceparent``; None begins a new trace, whose sampling is decided here.

    ``start``: nanoseconds since the epoch, now when None. ``links``: traceparents of other spans.
    ``span_id``: 16 hex digits, only for :func:`send`.
    """
    tracer = _recording.tracer
    if traceparent is None:
        sampled = random.random() < _recording.sample_ratio
        if tracer is None or not sampled:
            return Span(new_traceparent(sampled))
    elif tracer is None or not is_sampled(traceparent):
        return Span(traceparent)
    if _recording.ids is not None:
        _recording.ids.choose(int(span_id, 16) if span_id else None)
    recorded = tracer.start_span(
        name,
        context=otel.set_span_in_context(otel.NonRecordingSpan(_context(traceparent))),
        kind=kind,
        attributes=attributes,
        links=[otel.Link(_context(link)) for link in links],
        start_time=start,
    )
    return Span(_text(recorded.get_span_context()), recorded)


def send(
    exchange: str, routing_key: str, message_id: str, order: str, traceparent: str, *, first: bool = True
) -> Span:
    """The span of publishing one message of an order; its ``traceparent`` is the message's header.

    The first send of a message id has a span id made from that id, so that whoever sends it again
    (``first=False``: a retry, a sweep of the outbox) links to it without having to know who sent it.
    """
    if not _is_recorded(traceparent):
        return Span(traceparent)
    known = first_send(traceparent, message_id)
    destination = ":".join(part for part in (exchange, routing_key) if part)
    return span(
        f"send {destination}",
        traceparent,
        SpanKind.PRODUCER,
        _messaging("send", destination, message_id, order),
        links=() if first else (known,),
        span_id=known[36:52] if first else None,
    )


def process(
    queue: str, message_id: str, order: str, traceparent: str | None, *, start: int | None = None
) -> Span:
    """The span of handling one delivery of ``queue``; with ``traceparent`` None the trace begins here."""
    if traceparent is not None and not _is_recorded(traceparent):
        return Span(traceparent)
    return span(
        f"process {queue}",
        traceparent,
        SpanKind.CONSUMER,
        _messaging("process", queue, message_id, order),
        start=start,
    )


def first_send(traceparent: str, message_id: str) -> str:
    """The traceparent of the first send of ``message_id`` in the trace of ``traceparent``."""
    seed = f"{trace_id(traceparent)}{message_id}".encode(errors="replace")
    span_id = hashlib.blake2b(seed, digest_size=8).hexdigest()
    return f"{traceparent[:36]}{span_id}{traceparent[52:55]}"


def _is_recorded(traceparent: str) -> bool:
    return _recording.tracer is not None and is_sampled(traceparent)


def _messaging(operation: str, destination: str, message_id: str, order: str) -> Attributes:
    return {
        MESSAGING_SYSTEM: "rabbitmq",
        MESSAGING_OPERATION_NAME: operation,
        MESSAGING_OPERATION_TYPE: operation,
        MESSAGING_DESTINATION_NAME: destination,
        MESSAGING_MESSAGE_ID: message_id,
        MESSAGING_MESSAGE_CONVERSATION_ID: order,
    }


def _context(traceparent: str | None) -> otel.SpanContext:
    if traceparent is None or not is_traceparent(traceparent):
        return otel.INVALID_SPAN_CONTEXT
    return otel.SpanContext(
        trace_id=int(traceparent[3:35], 16),
        span_id=int(traceparent[36:52], 16),
        is_remote=True,
        trace_flags=otel.TraceFlags(int(traceparent[53:55], 16)),
    )


def _text(context: otel.SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
