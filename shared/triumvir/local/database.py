"""A private Postgres: own port, data and password; loopback only; as durable as by default."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from triumvir.errors import ConfigurationError
from triumvir.local import folders, leftovers, ports, processes
from triumvir.local.processes import Child
from triumvir.local.started import Started

StopMode = Literal["fast", "immediate"]
"""``fast`` rolls back what runs and closes in order; ``immediate`` is a crash that recovery has to repair."""

_SIGNALS: Final[dict[StopMode, signal.Signals]] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_USER: Final = "triumvir"
_SETTINGS: Final = {
    "listen_addresses": ports.LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "200",
    "log_min_messages": "warning",
    "log_line_prefix": "%m [%p] %d ",
    "max_wal_size": "1GB",
    "timezone": "UTC",
}


class PrivateDatabase(Started):
    """A Postgres server in ``folder``; without a folder, in a temporary one that the context manager removes.

    ``settings`` are added to the server's configuration. As root it runs as the user ``postgres`` (Postgres
    refuses root), who must be able to reach the folder. ``start`` again after ``stop`` uses the same port and
    data. All methods block (call them by ``asyncio.to_thread`` from a running loop). Raises ConfigurationError
    with the end of the log when the server cannot run.
    """

    def __init__(self, folder: Path | None = None, *, settings: Mapping[str, str] | None = None) -> None:
        self._temporary = folder is None
        self.folder = folder.resolve() if folder else leftovers.make_temporary()
        self._settings = _SETTINGS | dict(settings or {})
        self._account = folders.unprivileged_account()
        self._state_file = folders.StateFile(self.folder / "state.json")
        self._state = self._state_file.read()
        self._server: Child | None = None

    @property
    def url(self) -> str:
        """The database ``triumvir``, as superuser."""
        return self.url_of(_USER)

    def url_of(self, database: str) -> str:
        """A database of this server, as superuser."""
        return f"postgresql://{_USER}:{self._state['password']}@{ports.LOOPBACK}:{self._state['port']}/{database}"

    @property
    def pid(self) -> int:
        """Of the postmaster. Raises ConfigurationError when it was not started."""
        if self._server is None:
            raise ConfigurationError("the private database was not started")
        return self._server.pid

    def is_running(self) -> bool:
        return self._server is not None and self._server.exit_code() is None

    def start(self, *, within: float = 60.0) -> None:
        """Start and wait until it takes connections, recovery included; nothing to do when it runs."""
        if self.is_running():
            return
        self._prepare()
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        self._server = self._spawn(
            [_program("postgres"), "-D", str(self._data), "-p", str(self._state["port"]), *options]
        )
        self._state["server"] = list(self._server.identity)
        self._state_file.write(self._state)
        if not processes.wait_until(lambda: self._is_ready() or not self.is_running(), within=within):
            self.stop("immediate")
            raise ConfigurationError(f"Postgres is not ready after {within:.0f} s:\n{self._log_tail()}")
        if not self.is_running():
            raise ConfigurationError(f"Postgres ended at its start:\n{self._log_tail()}")
        self.create_database(_USER)

    def stop(self, mode: StopMode = "fast", *, within: float = 30.0) -> None:
        """Stop; killed when that takes longer than ``within`` seconds."""
        if self._server is not None:
            self._server.end(_SIGNALS[mode], within=within)
            self._state_file.let_go(self._state, ("server",))

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start on the same port and data."""
        self.stop(mode)
        self.start()

    def create_database(self, name: str, *, template: str | None = None) -> str:
        """Create a database unless it exists; its URL."""
        listed = self._run(_program("psql"), "--dbname=postgres", "--list", "--no-align", "--tuples-only")
        if name not in [line.split("|")[0] for line in listed.splitlines()]:
            self._run(_program("createdb"), *(["--template", template] if template else []), name)
        return self.url_of(name)

    def _clean_up(self) -> None:
        self.stop("immediate" if self._temporary else "fast")
        if self._temporary:
            folders.remove(self.folder)

    def _prepare(self) -> None:
        first_start = self._server is None
        self.folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        folders.require_passage(self.folder, self._account)
        self._state_file.take_over(("server",), signal.SIGINT)
        self._state = self._state_file.read()
        if "password" not in self._state:
            self._state = {"password": secrets.token_hex(16)}
        if "port" not in self._state or (first_start and not ports.is_free(self._state["port"])):
            self._state["port"] = ports.free_ports(1)[0]
        self._state_file.write(self._state)
        if not self._data.exists():
            self._initialise()

    def _initialise(self) -> None:
        """Make the data folder as a whole: a half-made one of a crashed run is thrown away."""
        home = self._data.parent
        folders.remove(home)
        home.mkdir(mode=0o700)
        draft, password = home / "draft", home / "password"
        password.write_text(self._state["password"])
        if self._account is not None:
            os.chown(home, *self._account)
            os.chown(password, *self._account)
        command = [_program("initdb"), "--pgdata", str(draft), "--username", _USER, "--pwfile", str(password)]
        child = self._spawn(
            [*command, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions"]
        )
        if not processes.wait_until(lambda: child.exit_code() is not None, within=60.0):
            child.end(signal.SIGKILL, within=10.0)
        if child.exit_code() != 0:
            raise ConfigurationError(f"initdb failed:\n{self._log_tail()}")
        password.unlink()
        draft.rename(self._data)

    def _spawn(self, command: list[str]) -> Child:
        uid, gid = self._account or (None, None)
        return Child(command, env=_environment(), output=self._log, cwd=self.folder, user=uid, group=gid)

    def _is_ready(self) -> bool:
        """Whether the server says so in its pid file, as ``pg_ctl`` reads it."""
        pid_file = self._data / "postmaster.pid"
        lines = pid_file.read_text().splitlines() if pid_file.exists() else []
        return len(lines) > 7 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _run(self, program: str, *arguments: str) -> str:
        place = ["-h", ports.LOOPBACK, "-p", str(self._state["port"]), "-U", _USER]
        environment = _environment() | {"PGPASSWORD": self._state["password"]}
        done = subprocess.run(
            [program, *place, *arguments],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            check=False,
            text=True,
            timeout=60.0,
        )
        if done.returncode != 0:
            raise ConfigurationError(f"{Path(program).name} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    @property
    def _data(self) -> Path:
        return self.folder / "cluster" / "data"

    @property
    def _log(self) -> Path:
        return self.folder / "postgres.log"

    def _log_tail(self) -> str:
        return processes.tail(self._log)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}


def _program(name: str) -> str:
    """The newest of Debian's versioned folders, else what the search path has."""
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    found = str(installed[-1]) if installed else shutil.which(name)
    if found is None:
        raise ConfigurationError(f"Postgres' {name} is not installed; run 'make setup'")
    return found
