from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from shop.processes import Service, start_service

StartService = Callable[..., Awaitable[Service]]


@pytest.fixture
async def run_service(tmp_path: Path) -> AsyncIterator[StartService]:
    """Starts a service by name; its ledger is in ``tmp_path``, so a second start goes on with it."""
    started: list[Service] = []

    async def run(name: str, seed: int = 1, port: int = 0) -> Service:
        started.append(await start_service(name, folder=tmp_path, seed=seed, port=port))
        return started[-1]

    yield run
    for service in started:
        await service.kill()
