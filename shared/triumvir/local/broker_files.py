"""The files and variables that make a RabbitMQ server private."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from triumvir.errors import ConfigurationError
from triumvir.local import ports

USER: Final = "triumvir"
PORTS: Final = ("amqp", "management", "distribution", "epmd")

_PROGRAM_FOLDERS: Final = ("/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin", "/usr/local/sbin")
_LOOPBACK_DISTRIBUTION: Final = "-kernel inet_dist_use_interface {127,0,0,1}"
_CONFIGURATION: Final = """\
listeners.tcp.1 = {host}:{amqp}
management.tcp.ip = {host}
management.tcp.port = {management}
default_user = {user}
default_pass = {password}
default_user_tags.administrator = true
default_permissions.configure = .*
default_permissions.read = .*
default_permissions.write = .*
log.dir = {log}
log.file = broker.log
log.file.level = warning
log.console = false
vm_memory_high_watermark.absolute = 1073741824
disk_free_limit.absolute = 67108864
"""


def program(name: str) -> str:
    """RabbitMQ's own script: Debian's wrapper of the same name in ``/usr/sbin`` would change the user."""
    for folder in _PROGRAM_FOLDERS:
        if (Path(folder) / name).is_file():
            return str(Path(folder) / name)
    found = shutil.which(name)
    if found is None:
        raise ConfigurationError(f"{name} is not installed; run 'make setup'")
    return str(Path(found).resolve())


def port_mapper() -> str:
    """Erlang's epmd."""
    found = shutil.which("epmd") or next(
        (str(path) for path in sorted(Path("/usr/lib/erlang").glob("erts-*/bin/epmd"))), None
    )
    if found is None:
        raise ConfigurationError("Erlang's epmd is not installed; run 'make setup'")
    return found


def write(folder: Path, state: Mapping[str, Any], settings: Mapping[str, str]) -> None:
    """Make the sub-folders, the configuration and the cookie of a broker in ``folder``."""
    for name in ("home", "data", "log"):
        (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    configuration = folder / "rabbitmq.conf"
    configuration.touch(mode=0o600)
    ours = _CONFIGURATION.format(user=USER, log=folder / "log", host=ports.LOOPBACK, **state)
    configuration.write_text(ours + "".join(f"{name} = {value}\n" for name, value in settings.items()))
    (folder / "enabled_plugins").write_text("[rabbitmq_management].\n")
    (folder / "rabbitmq-env.conf").write_text("")
    cookie = folder / "home" / ".erlang.cookie"
    if not cookie.exists():
        cookie.touch(mode=0o600)
        cookie.write_text(secrets.token_hex(16))
        cookie.chmod(0o400)


def environment(folder: Path, state: Mapping[str, Any]) -> dict[str, str]:
    """All that RabbitMQ's scripts read; nothing of the caller's environment but its search path."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C.UTF-8",
        "HOME": str(folder / "home"),
        "ERL_EPMD_ADDRESS": ports.LOOPBACK,
        "ERL_EPMD_PORT": str(state["epmd"]),
        # The start script then becomes the Erlang machine, so that the pid is the broker's.
        "RUNNING_UNDER_SYSTEMD": "true",
        "RABBITMQ_NODENAME": str(state["node"]),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
        "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "generated"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_MNESIA_DIR": str(folder / "data" / "node"),
        "RABBITMQ_PLUGINS_EXPAND_DIR": str(folder / "data" / "plugins"),
        "RABBITMQ_FEATURE_FLAGS_FILE": str(folder / "data" / "feature_flags"),
        "RABBITMQ_PID_FILE": str(folder / "data" / "pid"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_DIST_PORT": str(state["distribution"]),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _LOOPBACK_DISTRIBUTION,
        "RABBITMQ_CTL_ERL_ARGS": _LOOPBACK_DISTRIBUTION,
    }
