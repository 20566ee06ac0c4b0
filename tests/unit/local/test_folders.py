from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from triumvir.errors import ConfigurationError
from triumvir.local import folders, ports
from triumvir.local.folders import Account, StateFile

STRANGER = Account(uid=54_321, gid=54_321)


def test_state_comes_back_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state.json")
    assert state.read() == {}
    state.write({"port": 1, "password": "p"})
    assert (state.read()["port"], state.read()["password"]) == (1, "p")
    assert stat.S_IMODE((tmp_path / "state.json").stat().st_mode) == 0o600


def test_a_folder_behind_a_closed_one_is_refused_with_the_fix(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "data").mkdir(parents=True)
    closed.chmod(0o700)
    with pytest.raises(ConfigurationError, match=r"cannot enter .*chmod o\+x"):
        folders.require_passage(closed / "data", STRANGER)


def test_without_another_user_nothing_is_asked_of_the_folders(tmp_path: Path) -> None:
    folders.require_passage(tmp_path, None)


def test_a_folder_is_removed_with_all_in_it_however_often(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    folders.remove(tmp_path / "a")
    folders.remove(tmp_path / "a")
    assert os.listdir(tmp_path) == []


def test_ports_are_different_free_and_outside_the_range_of_outgoing_connections() -> None:
    chosen = ports.free_ports(4)
    assert len(set(chosen)) == 4
    assert ports.all_free(chosen)
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(chosen) < max(lowest, 32_768)


def test_what_a_dying_process_still_writes_is_removed_with_its_folder(tmp_path: Path) -> None:
    folder, written = tmp_path / "folder", 0
    (folder / "inner").mkdir(parents=True)
    remove_one = os.rmdir

    def rmdir(*arguments: Any, **options: Any) -> None:
        nonlocal written
        if written < 3:
            written += 1
            (folder / "inner" / str(written)).touch()
        remove_one(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "rmdir", rmdir)
        folders.remove(folder)
    assert written == 3
    assert not folder.exists()
