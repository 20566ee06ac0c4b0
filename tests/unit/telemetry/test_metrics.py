"""Every metric by its name, readable as Prometheus text."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.resources import Resource

from triumvir.telemetry import events, export, metrics


@pytest.fixture
def readable() -> Iterator[None]:
    export.configure_metrics(None, Resource({"service.name": "t"}))
    yield
    export.shutdown()


def shown() -> str:
    return export.exposition().decode()


def test_f59_the_end_waits_two_seconds_and_no_more_for_what_is_still_to_be_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hanging = threading.Event()
    monkeypatch.setattr(export, "_shutdowns", [hanging.wait])
    assert not export.shutdown(0.01)
    hanging.set()
    assert inspect.signature(export.shutdown).parameters["timeout"].default == 2.0


@pytest.mark.usefixtures("readable")
def test_what_was_counted_is_shown_by_its_labels() -> None:
    before = metrics.STEP_REPLIES.counts.get(("late",), 0)
    metrics.STEP_REPLIES.add(3, "late")
    metrics.STEP_REPLIES.add(2, "late")
    assert f'triumvir_step_replies_total{{kind="late"}} {before + 5}.0' in shown()


@pytest.mark.usefixtures("readable")
def test_a_gauge_shows_its_last_value_or_asks() -> None:
    metrics.ORDERS_HELD.set(3, "agent absent")
    metrics.ORDERS_HELD.set(4, "agent absent")
    metrics.SLOTS_BUSY.follow(lambda: 7)
    metrics.SLOTS_BUSY.follow(lambda: 2)
    assert 'triumvir_orders_held{reason="agent absent"} 4.0' in shown()
    assert "triumvir_slots_busy 9.0" in shown()


@pytest.mark.usefixtures("readable")
def test_a_duration_falls_into_its_bucket() -> None:
    metrics.COMMIT_SECONDS.record(0.004, "unit test")
    text = shown()
    assert 'triumvir_commit_duration_seconds_bucket{batch="unit test",le="0.0025"} 0.0' in text
    assert 'triumvir_commit_duration_seconds_bucket{batch="unit test",le="0.005"} 1.0' in text


def test_recording_before_configuration_is_harmless() -> None:
    metrics.BATCH_SIZE.record(3, "unit test")
    metrics.DEAD_LETTERS.add(1, "orders", "invalid")


@pytest.mark.parametrize("labels", [(), ("do",), ("do", "first", "extra")])
def test_a_wrong_number_of_labels_is_refused_at_once(labels: tuple[str, ...]) -> None:
    with pytest.raises(TypeError, match="direction"):
        metrics.REQUESTS_SENT.add(1, *labels)


def test_names_are_unique_and_of_one_form() -> None:
    names = [metric.name for metric in (*metrics.COUNTERS, *metrics.GAUGES, *metrics.HISTOGRAMS)]
    assert len(names) == len(set(names)) > 25
    assert all(re.fullmatch(r"triumvir(\.[a-z_]+)+", name) for name in names)


def test_log_events_are_unique_and_named_like_their_constant() -> None:
    declared = {name: value for name, value in vars(events).items() if name.isupper()}
    assert {name.lower() for name in declared} == set(declared.values())
