"""Fixtures for all tests. Servers start when the first test asks for them, so unit tests run without any."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import structlog

from tests import containers, servers
from tests.servers import ServerSet
from triumvir.local import PrivateServers, folders, leftovers
from triumvir.settings import Settings

# No limits of time: the machine may be busy. With CI set, hypothesis itself loads its "ci" profile.
hypothesis.settings.register_profile(
    "local", deadline=None, print_blob=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
if hypothesis.settings.get_current_profile_name() == "default":
    hypothesis.settings.load_profile("local")

_ORIGIN = pytest.StashKey[servers.Origin]()
_DESCRIPTIONS = {
    "given": "given by TRIUMVIR_TEST_*",
    "containers": f"containers of {containers.BROKER_IMAGE} and {containers.DATABASE_IMAGE}",
    "private": "private native RabbitMQ and Postgres",
}


def pytest_configure(config: pytest.Config) -> None:
    try:
        config.stash[_ORIGIN] = servers.choose()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header(config: pytest.Config) -> str:
    return f"servers: {_DESCRIPTIONS[config.stash[_ORIGIN]]} (started when first needed)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All in ``tests/faults`` is a fault. The searches come first: they take longest, so they end beside others."""
    for item in items:
        if "faults" in item.path.parts:
            item.add_marker("faults")
    items.sort(key=lambda item: "property" not in item.path.parts)


@pytest.fixture(autouse=True)
def logs_put_back() -> Iterator[None]:
    """What a test configures of the logs of this process, the next one does not find."""
    loggers = [logging.getLogger(name) for name in (None, "aiormq", "aio_pika")]
    before = [(list(logger.handlers), logger.level) for logger in loggers]
    yield
    for logger, (handlers, level) in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers
        logger.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.fixture(scope="session")
def server_set(request: pytest.FixtureRequest) -> Iterator[ServerSet]:
    """The servers that tests share; each test has its own vhost and database on them."""
    with servers.started(request.config.stash[_ORIGIN]) as started:
        yield started
        started.close()


@pytest.fixture
def broker_url(server_set: ServerSet) -> Iterator[str]:
    """AMQP, as administrator, at a vhost of this test's own."""
    with server_set.vhost() as url:
        yield url


@pytest.fixture
def management_url(server_set: ServerSet) -> str:
    """The management API, as administrator; shared by all tests."""
    return server_set.management_url


@pytest.fixture
def database_url(server_set: ServerSet) -> Iterator[str]:
    """A migrated database of this test's own."""
    with server_set.database() as url:
        yield url


@pytest.fixture
def empty_database_url(server_set: ServerSet) -> Iterator[str]:
    """A database of this test's own, as ``create database`` makes it."""
    with server_set.database(migrated=False) as url:
        yield url


@pytest.fixture
def settings(broker_url: str, management_url: str, database_url: str) -> Settings:
    """Settings for this test's vhost and database. Classic queues: they are made faster than quorum queues."""
    return _settings(broker_url, management_url, database_url)


@pytest.fixture(scope="session")
def _kept_private_servers() -> Iterator[PrivateServers]:
    with PrivateServers(broker_settings=servers.QUICK) as private:
        yield private


@pytest.fixture(scope="session")
def _private_server_set(_kept_private_servers: PrivateServers) -> ServerSet:
    return ServerSet.of(_kept_private_servers)


@pytest.fixture
def private_servers(_kept_private_servers: PrivateServers) -> Iterator[PrivateServers]:
    """Native servers that a test may kill, stop and restart; they run again before it and after it."""
    _kept_private_servers.start()
    yield _kept_private_servers
    _kept_private_servers.start()


@pytest.fixture
def private_settings(private_servers: PrivateServers, _private_server_set: ServerSet) -> Iterator[Settings]:
    """Settings for a vhost and a migrated database of this test's own on ``private_servers``."""
    shared = _private_server_set
    with shared.vhost() as broker_url, shared.database() as database_url:
        yield _settings(broker_url, shared.management_url, database_url)
        private_servers.start()


def _settings(broker_url: str, management_url: str, database_url: str) -> Settings:
    return Settings(
        broker_url=broker_url,
        management_url=management_url,
        database_url=database_url,
        database_schema=servers.SCHEMA,
        quorum_queues=False,
    )


@pytest.fixture
def tmp_folder() -> Iterator[Path]:
    """A folder that the unprivileged user of a private database can reach, unlike pytest's ``tmp_path`` as root."""
    folder = leftovers.make_temporary()
    yield folder
    folders.remove(folder)
