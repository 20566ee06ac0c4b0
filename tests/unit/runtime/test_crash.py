"""Crash points kill at the place and the time that was asked for, and nowhere else."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from triumvir.errors import ConfigurationError
from triumvir.runtime import crash
from triumvir.settings import Settings

REACH_THRICE = """
from triumvir import settings
from triumvir.runtime import crash
crash.configure(settings.load())
for turn in (1, 2, 3):
    print(turn, flush=True)
    crash.crash_point("agent.call.before")
    crash.crash_point("agent.call.after")
"""


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    crash.configure(Settings())


def reach_thrice(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", REACH_THRICE], env=environment, capture_output=True, text=True, timeout=30
    )


def test_the_process_dies_the_nth_time_and_says_so_first(tmp_path: Path) -> None:
    log = tmp_path / "crashes"
    ended = reach_thrice({"TRIUMVIR_CRASH_AT": "agent.call.after:2", "TRIUMVIR_CRASH_LOG": str(log)})
    assert (ended.returncode, ended.stdout) == (137, "1\n2\n")
    assert re.fullmatch(r"agent\.call\.after pid=\d+\n", log.read_text())


def test_without_a_count_it_is_the_first_time() -> None:
    ended = reach_thrice({"TRIUMVIR_CRASH_AT": "agent.call.before"})
    assert (ended.returncode, ended.stdout) == (137, "1\n")


def test_unarmed_points_do_nothing() -> None:
    crash.configure(Settings())
    for name in crash.CRASH_POINTS:
        crash.crash_point(name)  # type: ignore[arg-type] # the tuple holds exactly the literals


@pytest.mark.parametrize(
    "text", ["agent.call.befor", "", "agent.call.before:", "agent.call.before:0", "agent.call.before:x"]
)
def test_what_names_no_crash_point_is_refused_with_the_names(text: str) -> None:
    with pytest.raises(ConfigurationError, match="TRIUMVIR_CRASH_AT"):
        crash.configure(Settings(crash_at=text))
