"""A private RabbitMQ: own ports, node name, cookie, data and epmd; loopback only."""

from __future__ import annotations

import http.client
import secrets
import signal
import subprocess
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

from triumvir.errors import ConfigurationError
from triumvir.local import broker_files, folders, leftovers, ports, processes
from triumvir.local.broker_files import PORTS, USER
from triumvir.local.processes import Child, ProcessIdentity
from triumvir.local.started import Started


class PrivateBroker(Started):
    """A RabbitMQ server in ``folder``; without a folder, in a temporary one that the context manager removes.

    ``settings`` are added to ``rabbitmq.conf``. ``start`` again after ``stop`` or ``kill`` uses the same ports
    and data. All methods block (call them by ``asyncio.to_thread`` from a running loop). Raises
    ConfigurationError with the end of the log when the server cannot run.
    """

    def __init__(self, folder: Path | None = None, *, settings: Mapping[str, str] | None = None) -> None:
        self._temporary = folder is None
        self._settings = dict(settings or {})
        self.folder = folder.resolve() if folder else leftovers.make_temporary()
        self._state_file = folders.StateFile(self.folder / "state.json")
        self._state = self._state_file.read()
        self._server: Child | None = None
        self._port_mapper: Child | None = None

    @property
    def url(self) -> str:
        """AMQP, as administrator, at the vhost ``/``."""
        return f"amqp://{USER}:{self._state['password']}@{ports.LOOPBACK}:{self._state['amqp']}/"

    @property
    def management_url(self) -> str:
        """The management API, without a path."""
        return f"http://{USER}:{self._state['password']}@{ports.LOOPBACK}:{self._state['management']}"

    @property
    def pid(self) -> int:
        """Of the Erlang machine that is the broker. Raises ConfigurationError when it was not started."""
        if self._server is None:
            raise ConfigurationError("the private broker was not started")
        return self._server.pid

    def is_running(self) -> bool:
        return self._server is not None and self._server.exit_code() is None

    def start(self, *, within: float = 60.0) -> None:
        """Start and wait until it takes connections; nothing to do when it runs."""
        if self.is_running():
            return
        self._prepare()
        self._start_port_mapper()
        self._server = self._spawn(broker_files.program("rabbitmq-server"))
        self._remember("server", self._server.identity)
        if not processes.wait_until(lambda: self._is_ready() or not self.is_running(), within=within):
            self.kill()
            raise ConfigurationError(f"RabbitMQ is not ready after {within:.0f} s:\n{self._log_tail()}")
        if not self.is_running():
            self._end_port_mapper()
            raise ConfigurationError(f"RabbitMQ ended at its start:\n{self._log_tail()}")

    def stop(self, *, within: float = 30.0) -> None:
        """Shut down in order; killed when that takes longer than ``within`` seconds."""
        if self._server is not None:
            self._server.end(signal.SIGTERM, within=within)
        self._end_port_mapper()

    def kill(self) -> None:
        """SIGKILL, as a crash would: nothing is flushed, closed or told to anybody."""
        if self._server is not None:
            self._server.end(signal.SIGKILL, within=10.0)
        self._end_port_mapper()

    def ctl(self, *arguments: str, within: float = 60.0) -> str:
        """Run ``rabbitmqctl`` on this broker; what it printed. Raises ConfigurationError with its complaint."""
        return self._tool("rabbitmqctl", *arguments, within=within)

    def plugins(self, *arguments: str, within: float = 60.0) -> str:
        """Run ``rabbitmq-plugins`` on this broker, as :meth:`ctl`; a new start has the usual plugins again."""
        return self._tool("rabbitmq-plugins", *arguments, within=within)

    def _tool(self, tool: str, *arguments: str, within: float) -> str:
        command = [broker_files.program(tool), "--quiet", "--node", self._state["node"], *arguments]
        environment = broker_files.environment(self.folder, self._state)
        done = subprocess.run(
            command,
            env=environment,
            cwd=self.folder,
            capture_output=True,
            check=False,
            text=True,
            timeout=within,
        )
        if done.returncode != 0:
            raise ConfigurationError(f"{tool} {' '.join(arguments)}: {done.stderr.strip() or done.stdout}")
        return done.stdout

    def _clean_up(self) -> None:
        if self._temporary:
            self.kill()  # nothing is kept, so there is nothing to close in order
            folders.remove(self.folder)
        else:
            self.stop()

    def _prepare(self) -> None:
        first_start = self._server is None
        self._state_file.take_over(("server", "port_mapper"), signal.SIGKILL)
        self._state = self._state_file.read()
        if "node" not in self._state:
            self._state = {
                "node": f"triumvir-{secrets.token_hex(4)}@localhost",
                "password": secrets.token_hex(16),
            }
        numbers = [self._state[name] for name in PORTS if name in self._state]
        if len(numbers) != len(PORTS) or (first_start and not ports.all_free(numbers)):
            self._state |= dict(zip(PORTS, ports.free_ports(len(PORTS)), strict=True))
        broker_files.write(self.folder, self._state, self._settings)
        self._state_file.write(self._state)

    def _start_port_mapper(self) -> None:
        """Our own, and before the broker: Erlang would start one that nobody ends."""
        port = self._state["epmd"]
        self._port_mapper = self._spawn(
            broker_files.port_mapper(), "-address", ports.LOOPBACK, "-port", str(port)
        )
        self._remember("port_mapper", self._port_mapper.identity)
        if not processes.wait_until(lambda: not ports.is_free(port), within=10.0):
            self._end_port_mapper()
            raise ConfigurationError(f"epmd does not listen on port {port}:\n{self._log_tail()}")

    def _spawn(self, program: str, *arguments: str) -> Child:
        environment = broker_files.environment(self.folder, self._state)
        return Child([program, *arguments], env=environment, output=self._output, cwd=self.folder)

    def _end_port_mapper(self) -> None:
        if self._port_mapper is not None:
            self._port_mapper.end(signal.SIGTERM, within=5.0)
        self._state_file.let_go(self._state, ("server", "port_mapper"))

    def _remember(self, name: str, process: ProcessIdentity) -> None:
        self._state[name] = list(process)
        self._state_file.write(self._state)

    def _is_ready(self) -> bool:
        """Whether vhosts are up and the AMQP listener takes connections (it opens last)."""
        checks = ("virtual-hosts", f"port-listener/{self._state['amqp']}")
        return all(self._asks(f"/api/health/checks/{check}") for check in checks)

    def _asks(self, path: str) -> bool:
        credentials = b64encode(f"{USER}:{self._state['password']}".encode()).decode()
        connection = http.client.HTTPConnection(ports.LOOPBACK, self._state["management"], timeout=5)
        try:
            connection.request("GET", path, headers={"Authorization": f"Basic {credentials}"})
            return connection.getresponse().status == http.HTTPStatus.OK
        except (http.client.HTTPException, OSError):
            return False  # not listening yet; the deadline of start() decides
        finally:
            connection.close()

    @property
    def _output(self) -> Path:
        return self.folder / "log" / "output.log"

    def _log_tail(self) -> str:
        return "\n".join(processes.tail(self.folder / "log" / name) for name in ("output.log", "broker.log"))
