"""compose.yaml for real, where a container engine runs: built, started, used from outside, a service killed."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers import engine_answers
from tests.house.source import ROOT
from tests.waiting import eventually_blocking
from triumvir.client.blocking import BlockingClient
from triumvir.errors import OrderCompensated
from triumvir.local.ports import free_ports

OVERRIDE = """
services:
  jaeger: {image: "alpine:none", profiles: [absent]}
  setup: {build: {network: host}}
"""
AGENTS = ("orders", "inventory", "payments", "shipping")
SERVICES = ("submitter", "scheduler", "supervisor", *(f"agent-{agent}" for agent in AGENTS))
ORDER = {
    "placed_at": "2026-01-05T09:00:00Z",
    "customer_id": "17",
    "country": "United Kingdom",
    "lines": [{"sku": "85123A", "description": "a lamp", "quantity": 2, "unit_price": "2.55"}],
}


class Compose:
    """A project of its own: names, ports and volumes collide with nobody's."""

    def __init__(self, folder: Path) -> None:
        amqp, management = free_ports(2)
        override = folder / "override.yaml"
        override.write_text(OVERRIDE)
        self.amqp = amqp
        self._command = [
            *_compose_command(),
            "--project-name", f"triumvir{secrets.token_hex(4)}",
            "--project-directory", str(ROOT),
            "--file", str(ROOT / "compose.yaml"),
            "--file", str(override),
        ]  # fmt: skip
        self._environment = {
            **os.environ,
            "DOCKER_BUILDKIT": "0",
            "COMPOSE_DOCKER_CLI_BUILD": "0",
            "TRIUMVIR_PASSWORD": secrets.token_hex(8),
            "TRIUMVIR_OTLP_ENDPOINT": "",
            "TRIUMVIR_AMQP_PORT": str(amqp),
            "TRIUMVIR_MANAGEMENT_PORT": str(management),
        }

    def __call__(self, *arguments: str, within: float = 60, check: bool = True) -> str:
        ran = subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=within,
        )
        assert not check or ran.returncode == 0, f"{arguments}: {ran.stdout[-3000:]}{ran.stderr[-3000:]}"
        return ran.stdout

    def health(self, service: str) -> str:
        """What the engine says of the container: ``healthy``, or something else."""
        container = self("ps", "-q", service).strip()
        shown = ["docker", "inspect", "--format", "{{.State.Status}} {{.State.Health.Status}}", container]
        return subprocess.run(shown, check=False, capture_output=True, text=True, timeout=20).stdout.strip()


def _compose_command() -> list[str]:
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    return ["docker", "compose"]


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    if not engine_answers():
        pytest.skip("no container engine answers here: compose.yaml is not tried")
    compose = Compose(tmp_path_factory.mktemp("compose"))
    try:
        compose("build", "setup", within=900)
        compose("up", "--detach", "--no-build", within=300)
        for service in SERVICES:
            eventually_blocking(
                lambda service=service: compose.health(service) == "running healthy",  # type: ignore[misc]
                within=180,
                what=f"health of {service}",
            )
        yield compose
    finally:
        compose("down", "--volumes", "--timeout", "20", within=180, check=False)


@pytest.fixture(scope="module")
def client_url(compose: Compose) -> str:
    """A client made inside, its URL as seen from outside."""
    made = json.loads(compose("exec", "-T", "scheduler", "triumvir", "clients", "add", "shop-a", "--json"))
    url = urllib.parse.urlsplit(made["url"])
    return str(url._replace(netloc=f"{url.username}:{url.password}@127.0.0.1:{compose.amqp}").geturl())


@pytest.mark.timeout(1200)
def test_an_order_from_outside_runs_through_every_container(compose: Compose, client_url: str) -> None:
    with BlockingClient(client_url) as client:
        order = client.submit("order-fulfilment", {**ORDER, "order_id": "c-1"}, order_id="c-1")
        statuses = [status.status for status in order.statuses()]
    assert statuses[0] == "received"
    assert statuses[-1] in ("completed", "compensated")


@pytest.mark.timeout(600)
def test_a_killed_scheduler_is_started_again_and_orders_go_on(compose: Compose, client_url: str) -> None:
    with BlockingClient(client_url) as client:
        first = [
            client.submit("order-fulfilment", {**ORDER, "order_id": f"k-{n}"}, order_id=f"k-{n}")
            for n in range(20)
        ]
        container = compose("ps", "-q", "scheduler").strip()
        before = _started_at(container)
        compose("exec", "-T", "scheduler", "sh", "-c", "kill -9 1", check=False)
        subprocess.run(["docker", "kill", container], check=False, capture_output=True, timeout=30)
        subprocess.run(["docker", "start", container], check=False, capture_output=True, timeout=30)
        eventually_blocking(lambda: _started_at(container) != before, within=60, what="a restarted scheduler")
        for order in first:
            try:
                order.result(timeout=180)
            except OrderCompensated:
                continue
    assert compose.health("scheduler").startswith("running")


def _started_at(container: str) -> str:
    shown = ["docker", "inspect", "--format", "{{.State.StartedAt}}", container]
    return subprocess.run(shown, check=True, capture_output=True, text=True, timeout=20).stdout.strip()
