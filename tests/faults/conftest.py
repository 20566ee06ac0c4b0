"""Fixtures of the fault tests: a cluster on private servers, its logs kept when the test fails."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.faults.cluster import Cluster
from tests.faults.shared import SharedCluster
from tests.house.source import ROOT
from tests.orders_database import with_documents_at
from tests.servers import ServerSet
from triumvir.local import PrivateServers
from triumvir.local.database import PrivateDatabase
from triumvir.settings import Settings, chosen_transport

LOGS = ROOT / ".run" / "faults"
_FAILED = pytest.StashKey[bool]()


def pytest_report_header() -> str:
    seed, transport = os.environ.get("FAULT_SEED", "1"), chosen_transport()
    return f"faults: FAULT_SEED={seed}, transport {transport}, logs of failed ones in {LOGS}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture
def logs(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder for logs and ledgers; kept if the test fails."""
    folder = LOGS / re.sub(r"[^\w.-]+", "-", request.node.name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder
    if not request.node.stash.get(_FAILED, False):
        shutil.rmtree(folder)


@pytest.fixture
async def cluster(private_settings: Settings, logs: Path) -> AsyncIterator[Cluster]:
    """A cluster of this test's own; the test starts its services."""
    async with Cluster(private_settings, logs) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _kept_orders_server() -> Iterator[PrivateDatabase]:
    with PrivateDatabase() as server:
        yield server


@pytest.fixture
def orders_server(_kept_orders_server: PrivateDatabase) -> Iterator[PrivateDatabase]:
    """A second Postgres, for documents alone, that a test may stop; it runs again before it and after it."""
    _kept_orders_server.start()
    yield _kept_orders_server
    _kept_orders_server.start()


@pytest.fixture
async def two_databases(
    private_settings: Settings, orders_server: PrivateDatabase, logs: Path
) -> AsyncIterator[Cluster]:
    """As ``cluster``, with the documents on ``orders_server``."""
    url = orders_server.create_database(f"documents_{secrets.token_hex(6)}")
    async with Cluster(with_documents_at(private_settings, url), logs) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_cluster(
    request: pytest.FixtureRequest, _kept_private_servers: PrivateServers, _private_server_set: ServerSet
) -> AsyncIterator[SharedCluster]:
    """One running cluster for all tests of a module; a test that fails leaves the next one a new one."""
    _kept_private_servers.start()
    async with SharedCluster(
        _private_server_set, LOGS / request.module.__name__.rpartition(".")[2]
    ) as shared:
        yield shared
