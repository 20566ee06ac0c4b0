"""Folders of private servers: made when missing, usable by the user that runs the server."""

from __future__ import annotations

import errno
import json
import os
import pwd
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from triumvir.errors import ConfigurationError
from triumvir.local import processes
from triumvir.local.processes import ProcessIdentity

_REMOVALS = 200
_PAUSE_SECONDS = 0.05


class Account(NamedTuple):
    """The system user that a server runs as."""

    uid: int
    gid: int


def unprivileged_account() -> Account | None:
    """The user for servers that refuse to run as root: ``postgres``, else ``nobody``; None when not root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = known.get("postgres") or known.get("nobody")
    if entry is None:
        raise ConfigurationError("Postgres refuses to run as root and there is no user 'postgres'; add one")
    return Account(entry.pw_uid, entry.pw_gid)


def remove(folder: Path) -> None:
    """Remove a folder and all in it; what is missing, or vanishes meanwhile, is fine.

    What comes meanwhile is removed, too: the processes of a killed Postgres write for a moment longer.
    """

    def not_found_is_fine(_: object, __: str, problem: tuple[object, BaseException, object]) -> None:
        if not isinstance(problem[1], FileNotFoundError):
            raise problem[1]

    for left in reversed(range(_REMOVALS)):
        try:
            shutil.rmtree(folder, onerror=not_found_is_fine)
            return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or not left:
                raise
            time.sleep(_PAUSE_SECONDS)


def require_passage(folder: Path, account: Account | None) -> None:
    """Raises ConfigurationError when ``account`` cannot pass through a parent of ``folder``."""
    if account is None:
        return
    for parent in (folder, *folder.parents):
        if not _may_pass(parent, account):
            raise ConfigurationError(
                f"user {account.uid} cannot enter {parent}; give a folder outside it, such as one in"
                f" {tempfile.gettempdir()}, or allow passage with chmod o+x"
            )


def _may_pass(folder: Path, account: Account) -> bool:
    status = folder.stat()
    if status.st_uid == account.uid:
        return bool(status.st_mode & 0o100)
    return bool(status.st_mode & (0o010 if status.st_gid == account.gid else 0o001))


class StateFile:
    """What a private server remembers between runs (ports, password, pids), readable by its owner only."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Any]:
        """The state last written; empty when there is none."""
        if not self._path.is_file():
            return {}
        state: dict[str, Any] = json.loads(self._path.read_text())
        return state

    def write(self, state: dict[str, Any]) -> None:
        """Replace the state as a whole: a crash leaves the old or the new one. This process owns it now."""
        draft = self._path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        state["owner"] = processes.identify(os.getpid())
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(state, file)
        draft.replace(self._path)

    def take_over(self, servers: Sequence[str], first: signal.Signals) -> None:
        """End what a crashed owner left running. Raises ConfigurationError when the owner still lives."""
        state = self.read()
        running = [ProcessIdentity(*state[name]) for name in servers if name in state]
        owner = ProcessIdentity(*state["owner"]) if "owner" in state else None
        if (
            owner
            and owner.pid != os.getpid()
            and processes.is_alive(owner)
            and any(map(processes.is_alive, running))
        ):
            raise ConfigurationError(
                f"{self._path.parent} is in use by process {owner.pid}; end it or give another folder"
            )
        for process in running:
            processes.end(process, first, within=30.0)

    def let_go(self, state: dict[str, Any], servers: Sequence[str]) -> None:
        """Forget processes that have ended."""
        for name in servers:
            state.pop(name, None)
        if self._path.parent.exists():
            self.write(state)
