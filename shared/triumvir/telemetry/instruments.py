"""The three kinds of metric. Counting is an addition in a dict, read only when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.metrics import Histogram as OtelHistogram

Labels = tuple[str, ...]


class Counter:
    """Rises only. ``add(n, *labels)``, one value for each label name, from the event loop's thread."""

    def __init__(self, name: str, description: str, *labels: str) -> None:
        self.name, self.description, self.labels = name, description, labels
        self.counts: dict[Labels, int] = {}
        if not labels:
            self.counts[()] = 0

    def add(self, amount: int, *labels: str) -> None:
        """Count ``amount`` more."""
        self.counts[labels] = self.counts.get(labels, 0) + amount

    def observe(self, _: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(count, dict(zip(self.labels, labels, strict=True)))
            for labels, count in self.counts.copy().items()
        ]


class Gauge:
    """The present value: ``set(value, *labels)``, or ``follow(read, *labels)`` to ask when somebody looks."""

    def __init__(self, name: str, description: str, *labels: str) -> None:
        self.name, self.description, self.labels = name, description, labels
        self._values: dict[Labels, Callable[[], float]] = {}

    def set(self, value: float, *labels: str) -> None:
        self._values[labels] = lambda: value

    def follow(self, read: Callable[[], float], *labels: str) -> None:
        self._values[labels] = read

    def observe(self, _: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(read(), dict(zip(self.labels, labels, strict=True)))
            for labels, read in self._values.copy().items()
        ]


class Histogram:
    """A distribution. ``record(value, *labels)``; once per batch, not per message."""

    def __init__(
        self, name: str, description: str, unit: str, buckets: tuple[float, ...], *labels: str
    ) -> None:
        self.name, self.description, self.unit, self.buckets, self.labels = (
            name,
            description,
            unit,
            buckets,
            labels,
        )
        self.instrument: OtelHistogram | None = None

    def record(self, value: float, *labels: str) -> None:
        if self.instrument is not None:
            self.instrument.record(value, dict(zip(self.labels, labels, strict=True)))
