"""The chassis as processes live it: start, stop, fail, hang. F43 for the part without broker."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.integration.runtime.conftest import Start

PASSWORD = "can@ry:/%zz"


async def test_f43_sigterm_stops_in_order_and_exits_zero(start: Start) -> None:
    specimen = await start("orderly")
    await specimen.until("once done")
    specimen.signal(signal.SIGTERM)
    assert await specimen.exit_code() == 0
    stopped = specimen.said[specimen.said.index("service_draining") :]
    assert stopped == [
        "service_draining",
        "taking stopped",
        "task cancelled",
        "lease released",
        "broker closed",
        "pool closed",
        "service_stopped",
    ]


async def test_each_start_has_an_instance_of_its_own(start: Start) -> None:
    instances = {(await (await start("orderly")).until("service_started"))["instance"] for _ in range(2)}
    assert len(instances) == 2


async def test_the_port_is_logged_and_written_where_asked(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "port"
    specimen = await start("orderly", health_port_file=file)
    started = await specimen.until("service_started")
    assert int(file.read_text()) == started["port"] > 0


async def test_a_second_signal_ends_it_at_once(start: Start) -> None:
    specimen = await start("stubborn", drain_timeout=300)
    await specimen.until("service_started")
    specimen.signal(signal.SIGINT)
    await specimen.until("never ending")
    specimen.signal(signal.SIGTERM)
    assert await specimen.exit_code() == 128 + signal.SIGTERM


async def test_a_drain_that_hangs_is_cut_named_and_exits_non_zero(start: Start) -> None:
    specimen = await start("stubborn", drain_timeout=2)
    await specimen.until("service_started")
    specimen.signal(signal.SIGTERM)
    assert await specimen.exit_code() == 1
    assert specimen.line("service_drain_incomplete")["unfinished"] == ["stubborn"]
    assert "pool closed" in specimen.said


async def test_a_task_that_dies_takes_the_process_down_in_order_and_non_zero(start: Start) -> None:
    specimen = await start("dying_task", broker_url=f"amqp://shop:{PASSWORD}@nowhere:1/")
    assert await specimen.exit_code() == 1
    failed = specimen.line("task_failed")
    assert failed["task"] == "consume"
    assert "ConnectionError: lost amqp://shop:[redacted]@nowhere:1/" in failed["exception"]
    assert specimen.said[-3:] == ["broker closed", "pool closed", "service_stopped"]
    assert PASSWORD not in json.dumps(specimen.lines)


async def test_a_task_that_ends_although_it_should_not_is_a_failure(start: Start) -> None:
    specimen = await start("ending_task")
    assert await specimen.exit_code() == 1
    assert specimen.line("task_failed")["task"] == "consume"


async def test_a_start_that_fails_closes_what_it_had_opened(start: Start) -> None:
    specimen = await start("failing_start")
    assert await specimen.exit_code() == 1
    assert "ConnectionError: no broker" in specimen.line("task_failed")["exception"]
    assert "pool closed" in specimen.said


async def test_a_start_can_be_stopped(start: Start) -> None:
    specimen = await start("endless_start")
    await specimen.until("starting")
    specimen.signal(signal.SIGTERM)
    assert await specimen.exit_code() == 0
    assert "pool closed" in specimen.said


async def test_a_start_does_not_take_for_ever(start: Start) -> None:
    specimen = await start("endless_start", watchdog_timeout=2)
    assert await specimen.exit_code() == 1
    assert specimen.line("task_failed")["task"] == "start"


async def test_a_port_in_use_is_said_as_such(start: Start) -> None:
    first = await start("orderly")
    port = (await first.until("service_started"))["port"]
    second = await start("orderly", health_port=port)
    assert await second.exit_code() == 1
    assert "address already in use" in second.line("task_failed")["exception"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [("crash_at", "no.such.point"), ("drain_timeout", "soon"), ("otlp_endpoint", "localhost:4318")],
)
async def test_a_setting_that_cannot_work_is_named_and_exits_2(
    start: Start, setting: str, value: str
) -> None:
    specimen = await start("orderly", **{setting: value})
    assert await specimen.exit_code() == 2
    (line,) = specimen.lines
    assert line["event"] == "configuration_refused"
    assert f"TRIUMVIR_{setting.upper()}" in line["error"]


async def test_a_variable_that_is_no_setting_is_told_with_the_nearest_one(start: Start) -> None:
    specimen = await start("orderly", slotz=3)
    told = await specimen.until("setting_unknown")
    assert told["problem"] == "TRIUMVIR_SLOTZ is no setting; did you mean TRIUMVIR_SLOTS?"
    await specimen.until("service_started")


async def test_a_blocked_event_loop_ends_the_process_and_shows_where(start: Start) -> None:
    specimen = await start("blocked", watchdog_timeout=1)
    assert await specimen.exit_code() == 70
    stalled = specimen.line("service_stalled")
    assert "blocking" in stalled["stalled"]
    assert "wait(600)" in stalled["stacks"]["thread"]


async def test_a_loop_that_waits_for_ever_ends_the_process_and_shows_where(start: Start) -> None:
    specimen = await start("stalled", watchdog_timeout=4, poll_interval=0.1)
    assert await specimen.exit_code() == 70
    stalled = specimen.line("service_stalled")
    assert list(stalled["stalled"]) == ["waiting"]
    assert "wait_for_ever" in stalled["stacks"]["waiting"]


async def test_a_thread_that_hangs_cannot_keep_a_drained_process(start: Start) -> None:
    specimen = await start("hung_thread", drain_timeout=0.2)
    await specimen.until("service_started")
    specimen.signal(signal.SIGTERM)
    assert await specimen.exit_code() == 70
    assert "service_killed" in specimen.said
