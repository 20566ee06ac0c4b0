"""Temporary folders of private servers, and those that a crashed process left behind."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from pathlib import Path
from typing import Final

from triumvir.local import folders, processes
from triumvir.local.processes import ProcessIdentity

_PREFIX: Final = "triumvir-"
_MAKER: Final = "maker.json"
_SERVERS: Final = ("server", "port_mapper")


def make_temporary() -> Path:
    """A new folder that other users may pass through, not list; first removes what dead makers left."""
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    folder.chmod(0o711)
    (folder / _MAKER).write_text(json.dumps(processes.identify(os.getpid())))
    return folder


def keep(folder: Path) -> None:
    """Have such a folder outlive its maker: no sweep takes it any more. Its servers must have ended."""
    (folder / _MAKER).unlink(missing_ok=True)


def sweep() -> list[Path]:
    """End the servers in temporary folders of this user whose makers are dead, and remove those folders."""
    swept = [folder for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*") if _is_left_behind(folder)]
    for folder in swept:
        for state_file in folder.rglob("state.json"):
            _end_servers(folders.StateFile(state_file))
        folders.remove(folder)
    return swept


def _is_left_behind(folder: Path) -> bool:
    try:
        if folder.stat().st_uid != os.geteuid():
            return False
        maker = json.loads((folder / _MAKER).read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return False  # not one of these folders, or one just being made or removed
    return not processes.is_alive(ProcessIdentity(*maker))


def _end_servers(state_file: folders.StateFile) -> None:
    state = state_file.read()
    for name in _SERVERS:
        if name in state:
            processes.end(ProcessIdentity(*state[name]), signal.SIGKILL, within=10.0)
