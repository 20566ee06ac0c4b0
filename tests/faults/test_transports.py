"""The transport that is asked for is that of every process of a fault test, not of the test's own alone."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.faults.cluster import Cluster
from tests.faults.conftest import pytest_report_header
from tests.faults.pressure import said
from triumvir.settings import Settings, chosen_transport
from triumvir.telemetry import events


@pytest.mark.parametrize("transport", ["fast", "stock"])
async def test_every_process_has_the_transport_that_the_header_names(
    private_settings: Settings, logs: Path, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIUMVIR_TRANSPORT", transport)
    assert f"transport {transport}," in pytest_report_header()
    assert chosen_transport() == transport
    async with Cluster(private_settings, logs) as cluster:
        await cluster.start()
        await cluster.load.submit(10)
        for name, service in cluster.services.items():
            assert psutil.Process(service.pid).environ()["TRIUMVIR_TRANSPORT"] == transport
            assert not said(cluster, name, events.TRANSPORT_FALLBACK)
        await cluster.assert_sound()
