"""The health pages say what is wrong, in JSON, without secrets."""

from __future__ import annotations

import json

from tests.integration.runtime.conftest import Start

PASSWORD = "can@ry:/%zz"


async def test_a_service_that_is_fine_says_so(start: Start) -> None:
    specimen = await start("orderly")
    started = await specimen.until("service_started")
    for page in ("/livez", "/readyz"):
        status, text = await specimen.get(page)
        body = json.loads(text)
        assert (status, body["ok"], body["faults"]) == (200, True, {})
        assert (body["service"], body["instance"]) == ("specimen", started["instance"])


async def test_livez_shows_the_progress_of_every_loop(start: Start) -> None:
    specimen = await start("orderly")
    await specimen.until("service_started")
    _, text = await specimen.get("/livez")
    assert set(json.loads(text)["stalled_seconds"]) == {"event loop", "claims", "replies"}


async def test_readyz_names_each_check_that_fails_and_why(start: Start) -> None:
    specimen = await start("not_ready", database_url=f"postgresql://u:{PASSWORD}@nowhere/db")
    await specimen.until("service_started")
    status, text = await specimen.get("/readyz")
    assert status == 503
    assert json.loads(text)["faults"] == {
        "database": "ConnectionError: cannot reach postgresql://u:[redacted]@nowhere/db",
        "consumer": "not subscribed",
        "slow": "no answer in 2.0 s",
    }
    assert PASSWORD not in text


async def test_a_service_that_is_starting_is_alive_and_not_ready(start: Start) -> None:
    specimen = await start("endless_start")
    await specimen.until("starting")
    assert (await specimen.get("/livez"))[0] == 200
    status, text = await specimen.get("/readyz")
    assert (status, json.loads(text)["faults"]) == (503, {"service": "starting"})


async def test_metrics_are_prometheus_text(start: Start) -> None:
    specimen = await start("orderly")
    await specimen.until("service_started")
    status, text = await specimen.get("/metrics")
    assert status == 200
    assert "# TYPE triumvir_orders_claimed_total counter" in text
    assert 'service_name="triumvir-specimen"' in text
    assert "process_resident_memory_bytes" in text
