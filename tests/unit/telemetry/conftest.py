"""Telemetry is configured once per process; here each test puts back what is not of the logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from triumvir.telemetry import tracing


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    yield
    logging.captureWarnings(False)
    tracing.record_nothing(1.0)
