"""The soak: clean when nothing is broken, and it tells when something is."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.house.source import ROOT
from tests.soak.__main__ import BROKEN, CLEAN, INTERRUPTED
from tests.soak.schedule import STRANDS
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SEED: Final = 730
LOGS: Final = re.compile(r"logs, journal and evidence: (.*)")
ROW: Final = re.compile(r"│ ([\w -]+?) +│ (\d+) +│ \d+ +│")
SORTS: Final = {sort.name for strand in STRANDS.values() for sort in strand.sorts}


async def started(seconds: int, *options: str, **env: str) -> asyncio.subprocess.Process:
    command = ("-m", "tests.soak", "--seconds", str(seconds), "--seed", str(SEED), *options)
    return await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=ROOT, env={**os.environ, **env},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip


async def ended(soak: asyncio.subprocess.Process) -> str:
    output, _ = await soak.communicate()
    return output.decode()


async def test_half_a_minute_of_everything_at_once_breaks_no_promise() -> None:
    soak = await started(30)
    output = await ended(soak)
    assert soak.returncode == CLEAN, output
    assert f"clean, SEED={SEED}" in output
    fired = {name: int(count) for name, count in ROW.findall(output)}
    assert set(fired) == SORTS
    assert sum(count > 0 for count in fired.values()) >= 6, output
    assert not (ROOT / ".run" / "soak" / f"seed-{SEED}").exists()


async def test_a_soak_of_services_without_a_guard_ends_with_findings_and_the_faults_before_them() -> None:
    soak = await started(15, "--launcher", "tests.faults.sabotaged", FAULTS_SABOTAGE="fold_every_reply")
    output = await ended(soak)
    assert soak.returncode == BROKEN, output
    assert re.search(r"A4 .*: \d+\n +\S+/\S+: ", output), output
    assert re.search(r"while \S+ was under way:\n +\d+\.\d to ", output), output
    found = LOGS.search(output)
    assert found is not None, output
    folder = Path(found[1])
    _assert_evidence(folder)
    shutil.rmtree(folder)


async def test_a_soak_that_is_interrupted_leaves_nothing_behind() -> None:
    soak = await started(600)
    process = psutil.Process(soak.pid)
    try:
        await eventually(
            lambda: sum(map(_is_service, process.children())) == 8, within=180, what="eight services"
        )
        children = process.children(recursive=True)
    finally:
        soak.send_signal(signal.SIGTERM)
        output = await ended(soak)
    assert soak.returncode == INTERRUPTED, output
    await eventually(lambda: not any(child.is_running() for child in children), what="the end of all")
    assert not (ROOT / ".run" / "soak" / f"seed-{SEED}").exists()


def _assert_evidence(folder: Path) -> None:
    kept = {path.name for path in folder.iterdir()}
    assert kept >= {"journal.jsonl", "evidence.jsonl", "ledger.jsonl", "client.log", "first agent.log"}
    assert (folder / "evidence.jsonl").read_text()


def _is_service(child: psutil.Process) -> bool:
    try:
        return "tests.faults.tap" in child.cmdline()
    except psutil.Error:  # it has just ended
        return False
