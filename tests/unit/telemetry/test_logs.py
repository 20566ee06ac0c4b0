"""One JSON object a line, with who and which order, without secrets (F71)."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest
import structlog

from triumvir.settings import Settings
from triumvir.telemetry import events, logs, metrics, tracing

PASSWORD = "can@ry:/%zz"
SETTINGS = Settings(
    broker_url=f"amqp://shop:{PASSWORD}@nowhere:1/",
    database_url=f"postgresql://triumvir:{PASSWORD}@nowhere:1/db",
    log_level="DEBUG",
)


@pytest.fixture
def stream() -> io.StringIO:
    stream = io.StringIO()
    logs.configure(SETTINGS, "scheduler", "instance-1", stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_says_when_what_who_and_which(stream: io.StringIO) -> None:
    trace = tracing.new_traceparent(sampled=True)
    logs.get_logger("triumvir.test").info(events.ORDER_ACCEPTED, order="shop-a/1", trace=trace)
    (line,) = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "level": "info",
        "event": "order_accepted",
        "order": "shop-a/1",
        "trace": tracing.trace_id(trace),
        "logger": "triumvir.test",
        "service": "scheduler",
        "instance": "instance-1",
    }
    assert stream.getvalue().startswith('{"timestamp":')


def test_context_is_on_every_line_within_and_on_none_after(stream: io.StringIO) -> None:
    log = logs.get_logger("t")
    with logs.log_context(order="shop-a/1"):
        log.info(events.ORDER_CLAIMED)
    log.info(events.ORDER_CLAIMED)
    assert [line.get("order") for line in lines(stream)] == ["shop-a/1", None]


def test_a_logger_made_before_configuration_uses_it() -> None:
    log = logs.get_logger("early")
    stream = io.StringIO()
    logs.configure(SETTINGS, "agent", "i", stream)
    log.info(events.SERVICE_STARTED)
    assert lines(stream)[0]["service"] == "agent"


def test_lines_below_the_level_are_not_written() -> None:
    stream = io.StringIO()
    logs.configure(Settings(log_level="WARNING"), "agent", "i", stream)
    logs.get_logger("t").info(events.SERVICE_STARTED)
    assert stream.getvalue() == ""


def test_an_exception_is_one_line_without_the_password(stream: io.StringIO) -> None:
    try:
        raise ConnectionError(f"cannot reach {SETTINGS.broker_url} as {PASSWORD}")
    except ConnectionError:
        logs.get_logger("t").exception(events.BROKER_LOST, url=SETTINGS.broker_url, settings=SETTINGS)
    assert PASSWORD not in stream.getvalue()
    (line,) = lines(stream)
    assert "ConnectionError: cannot reach amqp://shop:[redacted]@nowhere:1/" in line["exception"]


def test_the_libraries_own_logging_takes_the_same_road(stream: io.StringIO) -> None:
    logging.getLogger("aio_pika.tools").warning("retrying %s", SETTINGS.broker_url)
    logging.getLogger("aio_pika.tools").info("chatter")
    (line,) = lines(stream)
    assert PASSWORD not in stream.getvalue()
    assert (line["logger"], line["level"], line["service"]) == ("aio_pika.tools", "warning", "scheduler")


def test_what_the_broker_s_library_says_may_be_kept_out_until_it_is_wanted_again() -> None:
    heard = []
    for wanted in (False, True):
        stream = io.StringIO()
        logs.configure(SETTINGS, "cli", "i", stream, broker_library=wanted)
        logging.getLogger("aiormq.connection").error("connection lost")
        logging.getLogger("asyncio").error("a task failed")
        heard.append([line["event"] for line in lines(stream)])
    assert heard == [["a task failed"], ["connection lost", "a task failed"]]


def test_a_traceback_of_a_library_is_redacted(stream: io.StringIO) -> None:
    try:
        raise OSError(PASSWORD)
    except OSError:
        logging.getLogger("asyncpg").exception("lost")
    assert PASSWORD not in stream.getvalue()
    assert "OSError: [redacted]" in lines(stream)[0]["exception"]


def test_a_library_that_keeps_warning_of_a_collector_is_heard_once_a_minute(stream: io.StringIO) -> None:
    for _ in range(50):
        logging.getLogger("opentelemetry.exporter.otlp").error("collector away")
        logging.getLogger("urllib3.connectionpool").warning("retry")
    assert len(lines(stream)) == 1


def test_the_ration_is_one_record_a_minute() -> None:
    times = iter((0.0, 1.0, 59.9, 60.0, 61.0, 120.1))
    ration = logs.Ration(clock=lambda: next(times))
    record = logging.LogRecord("opentelemetry.sdk", logging.WARNING, "f", 1, "m", None, None)
    heard = [ration.filter(record) for _ in range(6)]
    assert heard == [True, False, False, True, False, True]


@pytest.mark.parametrize("value", ["\ud800", 2**70, "\x00", "two\nlines", {"\udfff": 1}])
def test_text_that_json_refuses_is_still_one_line(stream: io.StringIO, value: object) -> None:
    logs.get_logger("t").info("event", value=value)
    assert len(lines(stream)) == 1


def test_a_closed_stream_loses_the_line_and_counts_it() -> None:
    stream = io.StringIO()
    logs.configure(SETTINGS, "agent", "i", stream)
    stream.close()
    before = metrics.LOG_LINES_LOST.counts[()]
    logs.get_logger("t").info(events.SERVICE_STARTED)
    assert metrics.LOG_LINES_LOST.counts[()] == before + 1


def test_the_console_renderer_is_redacted_as_well() -> None:
    stream = io.StringIO()
    logs.configure(SETTINGS.model_copy(update={"log_format": "console"}), "agent", "i", stream)
    logs.get_logger("t").info(events.BROKER_CONNECTED, url=SETTINGS.broker_url)
    assert "broker_connected" in stream.getvalue()
    assert PASSWORD not in stream.getvalue()


def test_in_a_clients_process_the_standard_library_decides(caplog: pytest.LogCaptureFixture) -> None:
    logs.configure_as_library()
    logs.get_logger("triumvir.client").warning(events.BROKER_LOST, url=f"amqp://a:{PASSWORD}@h/")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("triumvir.client", "WARNING")
    assert PASSWORD not in caplog.text


def test_an_application_that_configured_structlog_keeps_its_own() -> None:
    captured = structlog.testing.LogCapture()
    structlog.configure(processors=[captured])
    logs.configure_as_library()
    logs.get_logger("triumvir.client").warning(events.BROKER_LOST)
    assert captured.entries[0]["event"] == "broker_lost"
