"""The three kinds of metric. Counting is an addition in a dict, read only when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.metrics import Histogram as OtelHistogram

Labels = tuple[str, ...]


class Instrument:
    """A name, what it means, and the names of its labels."""

    def __init__(self, name: str, description: str, *labels: str) -> None:
        self.name = name
        self.description = description
        self.labels = labels

    def named(self, labels: Labels) -> dict[str, str]:
        """Label values by name. TypeError when there are too many or too few."""
        if len(labels) != len(self.labels):
            raise TypeError(f"{self.name} takes the labels {self.labels}, not {labels}")
        return dict(zip(self.labels, labels, strict=True))


class Counter(Instrument):
    """Rises only. ``add(n, *labels)``, one value for each label name, from the event loop's thread."""

    def __init__(self, name: str, description: str, *labels: str) -> None:
        super().__init__(name, description, *labels)
        self.counts: dict[Labels, int] = {} if labels else {(): 0}

    def add(self, amount: int, *labels: str) -> None:
        """Count ``amount`` more."""
        if labels not in self.counts:
            self.named(labels)
            self.counts[labels] = 0
        self.counts[labels] += amount

    def observe(self, _: CallbackOptions) -> Iterable[Observation]:
        """For the exporters, in their threads."""
        return [Observation(count, self.named(labels)) for labels, count in self.counts.copy().items()]


class Gauge(Instrument):
    """The present value: ``set(value, *labels)``, or ``follow(read, *labels)`` to ask when somebody looks.

    What several follow under the same labels is added up.
    """

    def __init__(self, name: str, description: str, *labels: str) -> None:
        super().__init__(name, description, *labels)
        self._reads: dict[Labels, tuple[Callable[[], float], ...]] = {}

    def set(self, value: float, *labels: str) -> None:
        """It is ``value`` until set again."""
        self.named(labels)
        self._reads[labels] = (lambda: value,)

    def follow(self, read: Callable[[], float], *labels: str) -> None:
        """It is what ``read`` returns, which is called in another thread and may only look; and so on for more."""
        self.named(labels)
        self._reads[labels] = (*self._reads.get(labels, ()), read)

    def observe(self, _: CallbackOptions) -> Iterable[Observation]:
        """For the exporters, in their threads."""
        return [
            Observation(sum(read() for read in reads), self.named(labels))
            for labels, reads in self._reads.copy().items()
        ]


class Histogram(Instrument):
    """A distribution. ``record(value, *labels)``; once per batch, not per message."""

    def __init__(
        self, name: str, description: str, unit: str, buckets: tuple[float, ...], *labels: str
    ) -> None:
        super().__init__(name, description, *labels)
        self.unit = unit
        self.buckets = buckets
        self.instrument: OtelHistogram | None = None

    def record(self, value: float, *labels: str) -> None:
        """One more observation; nothing before the exporters are configured."""
        if self.instrument is not None:
            self.instrument.record(value, self.named(labels))
