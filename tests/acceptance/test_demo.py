"""The demo as a newcomer runs it: what it shows, what its exit code says, and what is left of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.waiting import eventually_blocking
from triumvir.local import folders, leftovers

EXAMPLES = Path(__file__).parents[2] / "examples"


class Demo:
    """A running demo; ``lines`` are those it has shown so far."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-m", "shop.demo", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(EXAMPLES), "TRIUMVIR_HEALTH_PORT": "1"},
        )
        self.lines: list[str] = []

    @property
    def folder(self) -> Path:
        """Where its first line says that logs and ledgers are."""
        found = re.search(r"logs and ledgers in (\S+)", self.lines[0])
        assert found is not None, self.lines[0]
        return Path(found[1])

    def until(self, text: str) -> None:
        """Reads on to the line that holds this text."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))
            if text in line:
                return
        pytest.fail(f"{text!r} was never shown:\n" + "\n".join(self.lines))

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """Reads to the end; the exit code."""
        assert self._process.stdout is not None
        self.lines += self._process.stdout.read().splitlines()
        return self._process.wait()

    def close(self) -> None:
        self._process.kill()  # what it started ends with it; its folder is swept by the next
        self._process.communicate()


@pytest.fixture
def demos() -> Iterator[list[Demo]]:
    started: list[Demo] = []
    yield started
    for demo in started:
        demo.close()


def start(demos: list[Demo], *arguments: str) -> Demo:
    demos.append(Demo(*arguments))
    return demos[-1]


def processes_of(folder: Path) -> list[str]:
    """The processes that were told of this folder, in their arguments or their environment."""
    found: list[str] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(folder) in " ".join([*process.cmdline(), *process.environ().values()]):
                found.append(" ".join(process.cmdline()))
    return found


def test_every_order_ends_and_ledgers_and_store_agree_although_two_processes_are_killed(
    demos: list[Demo],
) -> None:
    demo = start(demos, "--seed", "7")
    code = demo.end()
    shown = "\n".join(demo.lines)
    assert code == 0, shown
    assert re.search(r"SIGKILL to agent-payments: \d+ orders open, \d+ calls under way in it", shown), shown
    assert re.search(r"SIGKILL to scheduler: \d+ orders open", shown), shown
    assert re.search(r"nothing to undo: refused by check-order +9 *$", shown, re.MULTILINE), shown
    assert shown.count("\n") < 70, "more than two screens"
    last = re.fullmatch(
        r"60 orders: (\d+) processed, (\d+) compensated \((\d+) with real undos\);"
        r" ledgers, store and client agree; \d+ s; seed 7",
        demo.lines[-1],
    )
    assert last is not None, shown
    processed, compensated, undone = map(int, last.groups())
    assert processed + compensated == 60
    assert undone >= 1
    assert not demo.folder.exists()
    assert processes_of(demo.folder) == []


def test_a_charge_that_the_store_does_not_know_makes_it_fail_and_keep_the_evidence(demos: list[Demo]) -> None:
    demo = start(demos, "--seed", "7")
    demo.until("SIGKILL to scheduler")
    ledger = demo.folder / "payments.ndjson"
    entries = [json.loads(line) for line in ledger.read_text().splitlines()]
    charge = next(entry for entry in entries if (entry["kind"], entry["direction"]) == ("effect", "do"))
    with ledger.open("a") as file:
        file.write(json.dumps({**charge, "key": f"{charge['key']}/again"}) + "\n")
    code = demo.end()
    shown = "\n".join(demo.lines)
    try:
        assert code == 1, shown
        assert re.search(rf"^{charge['order']} \(\w+\): payments has 2 effects", shown, re.MULTILINE), shown
        assert re.search(r"they do NOT agree; \d+ s; seed 7$", demo.lines[-2]), shown
        assert demo.lines[-1].endswith(f"seed 7; logs and ledgers are kept in {demo.folder}")
        assert (demo.folder / "scheduler.log").stat().st_size > 0
        assert processes_of(demo.folder) == []
    finally:
        folders.remove(demo.folder)


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("starting a RabbitMQ", signal.SIGINT),
        ("triumvir workflows apply", signal.SIGTERM),
        ("SIGKILL to agent", signal.SIGINT),
    ],
)
def test_a_demo_that_is_interrupted_leaves_nothing(
    demos: list[Demo], moment: str, number: signal.Signals
) -> None:
    demo = start(demos)
    demo.until(moment)
    demo.send(number)
    demo.send(number)
    assert demo.end() == 130, demo.lines
    assert demo.lines[-1].endswith("interrupted; everything that was started is ended and removed")
    assert not demo.folder.exists()
    assert processes_of(demo.folder) == []


def test_what_a_killed_demo_started_ends_with_it_or_with_the_next_sweep(demos: list[Demo]) -> None:
    demo = start(demos)
    demo.until("triumvir migrate")
    assert len(processes_of(demo.folder)) > 3
    demo.send(signal.SIGKILL)
    demo.end()
    eventually_blocking(lambda: not [line for line in processes_of(demo.folder) if "shop.services" in line])
    leftovers.sweep()
    eventually_blocking(lambda: not demo.folder.exists())  # a test beside this one may be sweeping, too
    assert processes_of(demo.folder) == []


def test_a_file_that_holds_no_orders_is_refused_before_anything_is_started(
    demos: list[Demo], tmp_path: Path
) -> None:
    file = tmp_path / "orders.ndjson"
    file.write_text("[]\n")
    demo = start(demos, str(file))
    assert demo.end() == 2
    (line,) = demo.lines
    assert line == f"demo: {file}:1: order_id is missing; each line is an object with a text order_id"
