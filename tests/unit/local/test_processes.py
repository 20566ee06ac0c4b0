from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from triumvir.local import processes
from triumvir.local.processes import ProcessIdentity


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_process_is_known_by_pid_and_start(sleeper: subprocess.Popen[bytes]) -> None:
    identity = processes.identify(sleeper.pid)
    assert identity is not None
    assert processes.is_alive(identity)
    assert not processes.is_alive(ProcessIdentity(identity.pid, identity.started + 1))


def test_a_process_of_a_reused_pid_is_left_alone(sleeper: subprocess.Popen[bytes]) -> None:
    identity = processes.identify(sleeper.pid)
    assert identity is not None
    processes.end(ProcessIdentity(identity.pid, identity.started - 1), signal.SIGKILL, within=1)
    assert sleeper.poll() is None


def test_ending_a_process_waits_until_it_is_gone(sleeper: subprocess.Popen[bytes]) -> None:
    identity = processes.identify(sleeper.pid)
    assert identity is not None
    processes.end(identity, signal.SIGTERM, within=10)
    assert not processes.is_alive(identity)


def test_a_process_that_ignores_the_first_signal_is_killed() -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1) as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        identity = processes.identify(stubborn.pid)
        assert identity is not None
        processes.end(identity, signal.SIGTERM, within=0.1)
        assert stubborn.wait() == -signal.SIGKILL


def test_there_is_no_identity_of_no_process() -> None:
    assert processes.identify(2**22 + 1) is None


def test_this_process_is_alive() -> None:
    assert processes.identify(os.getpid()) is not None
