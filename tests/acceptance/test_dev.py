"""`triumvir dev` as a developer uses it: one command, an order from a file, Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.waiting import eventually_blocking

TRIUMVIR = [sys.executable, "-m", "triumvir.cli"]
DEFINITIONS = """
from triumvir import Step, Workflow
greeting = Workflow("greeting", version=1, on_error="compensate", steps=[
    Step("hello", agent="greeter", operation="say-hello", undo="take-back"),
    Step("bye", agent="greeter", operation="say-bye"),
])
"""
AGENTS = """
from pydantic import BaseModel
from triumvir import Agent, Context, Permanent

greeter = Agent("greeter")

class Guest(BaseModel):
    name: str

@greeter.operation("say-hello", undo="take-back")
async def say_hello(ctx: Context, guest: Guest) -> str:
    return f"hello {guest.name}"

@greeter.undo("take-back")
async def take_back(ctx: Context, guest: Guest, said: str | None) -> None:
    pass

@greeter.operation("say-bye")
def say_bye(ctx: Context, guest: Guest) -> str:
    if guest.name == "nobody":
        raise Permanent("there is nobody to leave")
    return f"bye {guest.name}"
"""


class Dev:
    """A running `triumvir dev`, and commands in another shell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "definitions.py").write_text(DEFINITIONS)
        (folder / "agents.py").write_text(AGENTS)
        command = [*TRIUMVIR, "dev", "-w", "definitions.py", "agents:greeter"]
        self.notes = folder / "notes"
        with self.notes.open("w") as notes:
            self.process = subprocess.Popen(
                command, cwd=folder, stdout=subprocess.PIPE, stderr=notes, text=True
            )
        assert self.process.stdout is not None
        self.environment = dict(os.environ)
        for line in self.process.stdout:
            if line.strip().startswith("source "):
                self._source(Path(line.split()[1]))
            if "--follow" in line:
                return
        raise AssertionError(f"triumvir dev ended with {self.process.wait()}")

    def _source(self, exports: Path) -> None:
        self.servers = exports.parent
        for line in exports.read_text().splitlines():
            name, _, value = shlex.split(line)[1].partition("=")
            self.environment[name] = value

    def run(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [*TRIUMVIR, *arguments], env=self.environment, cwd=self.folder, capture_output=True, text=True
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    dev = Dev(tmp_path)
    yield dev
    if dev.process.poll() is None:
        dev.process.send_signal(signal.SIGTERM)
        dev.process.wait(60)


def test_one_command_runs_an_order_and_ctrl_c_leaves_nothing_behind(dev: Dev) -> None:
    orders = dev.folder / "orders.ndjson"
    orders.write_text('{"order_id":"1","name":"ann"}\n{"order_id":"2","name":"nobody"}\n')
    said = dev.run("submit", "orders.ndjson", "-w", "greeting", "--follow")
    assert "2 sent, 0 failed" in said
    assert "1  completed" in said
    assert "2  compensated" in said
    shown = dev.run("orders", "show", "dev/2")
    assert "take-back: undone" in shown
    assert "there is nobody to leave" in shown
    assert "received" in dev.run("watch", "1")

    children = psutil.Process(dev.process.pid).children(recursive=True)
    assert len(children) >= 6, "RabbitMQ, Postgres and four services"
    dev.process.send_signal(signal.SIGINT)
    assert dev.process.wait(60) == 0
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []
    assert not dev.servers.exists()


@pytest.mark.parametrize("service", ["scheduler", "agent"])
def test_a_service_that_is_killed_is_started_again_and_orders_go_on(dev: Dev, service: str) -> None:
    (killed,) = _running(dev, service)
    os.kill(killed, signal.SIGKILL)
    eventually_blocking(lambda: _running(dev, service) not in ([], [killed]), what="another process")
    assert f"{service} was ended by SIGKILL; starting it again" in dev.notes.read_text().replace("\n", " ")
    (dev.folder / "orders.ndjson").write_text('{"order_id":"1","name":"ann"}\n')
    assert "1  completed" in dev.run("submit", "orders.ndjson", "-w", "greeting", "--follow")
    assert dev.process.poll() is None


def _running(dev: Dev, service: str) -> list[int]:
    """The pids of the processes that run this service now."""
    found = []
    for child in psutil.Process(dev.process.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie, too
            if {"run", service} <= set(child.cmdline()):
                found.append(child.pid)
    return found
