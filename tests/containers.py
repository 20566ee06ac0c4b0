"""The newest releases of the servers, in containers, where an engine answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

BROKER_IMAGE = "rabbitmq:4-management"
DATABASE_IMAGE = "postgres:17"
_ACCOUNT = "triumvir"


class Urls(NamedTuple):
    """How to reach one broker and one database, as administrator."""

    broker: str
    management: str
    database: str


class NoImages(Exception):
    """The engine answers but cannot get the images."""


def engine_answers() -> bool:
    """Whether a container engine can be talked to."""
    if "DOCKER_HOST" not in os.environ and not Path("/var/run/docker.sock").exists():
        return False
    import docker  # here and below: imported only where an engine may be, as it takes a while

    try:
        return bool(docker.from_env(timeout=2).ping())
    except docker.errors.DockerException:
        return False


@contextmanager
def started() -> Iterator[Urls]:
    """Both containers for as long as the context lasts. Raises NoImages."""
    import docker
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import ExecWaitStrategy, HttpWaitStrategy

    listening = HttpWaitStrategy(15672, "/api/health/checks/port-listener/5672")
    broker = (
        DockerContainer(BROKER_IMAGE, ports=[5672, 15672])
        .with_envs(RABBITMQ_DEFAULT_USER=_ACCOUNT, RABBITMQ_DEFAULT_PASS=_ACCOUNT)
        .waiting_for(listening.with_basic_credentials(_ACCOUNT, _ACCOUNT))
    )
    database = (
        DockerContainer(DATABASE_IMAGE, ports=[5432], command="postgres -c max_connections=200")
        .with_envs(POSTGRES_USER=_ACCOUNT, POSTGRES_PASSWORD=_ACCOUNT)
        .waiting_for(ExecWaitStrategy(["pg_isready", "--host=127.0.0.1", f"--username={_ACCOUNT}"]))
    )
    with ExitStack() as stack:
        try:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(stack.enter_context, (broker, database)))
        except docker.errors.APIError as error:
            raise NoImages(str(error)) from error
        yield Urls(
            f"amqp://{_ACCOUNT}:{_ACCOUNT}@{_place(broker, 5672)}/",
            f"http://{_ACCOUNT}:{_ACCOUNT}@{_place(broker, 15672)}",
            f"postgresql://{_ACCOUNT}:{_ACCOUNT}@{_place(database, 5432)}/{_ACCOUNT}",
        )


def _place(container: object, port: int) -> str:
    from testcontainers.core.container import DockerContainer

    assert isinstance(container, DockerContainer)
    return f"{container.get_container_host_ip()}:{container.get_exposed_port(port)}"
