from __future__ import annotations

from collections.abc import Iterator

import pytest

from triumvir.cli import equipment


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No settings but the defaults, an unreachable database, and the same width everywhere."""
    monkeypatch.setenv("TRIUMVIR_DATABASE_URL", "postgresql://somebody:hunter2secret@127.0.0.1:1/triumvir")
    monkeypatch.setenv("TRIUMVIR_BROKER_URL", "amqp://somebody:hunter2secret@127.0.0.1:1/")
    monkeypatch.setenv("TRIUMVIR_CLIENT_URL", "amqp://somebody:hunter2secret@127.0.0.1:1/")
    monkeypatch.delenv("TRIUMVIR_LOG_LEVEL", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    equipment.settings.cache_clear()
    yield
    equipment.settings.cache_clear()
