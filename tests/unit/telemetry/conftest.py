"""Telemetry is configured once per process; here each test puts it back."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from triumvir.telemetry import tracing


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    tracing.record_nothing(1.0)
