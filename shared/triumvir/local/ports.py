"""Free loopback ports for private servers."""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

from triumvir.errors import ConfigurationError

LOOPBACK = "127.0.0.1"
_LOWEST = 10_000
_CHOICE = random.SystemRandom()
_CLAIMS: list[socket.socket] = []
"""Held until this process ends: a server that is killed gets its port back."""


def free_ports(count: int) -> list[int]:
    """``count`` different free ports below the range that outgoing connections take theirs from.

    A port inside that range could be taken by any outgoing connection while a killed server is down, even by
    a client that tries to reach that server and then talks to itself.
    """
    ports: list[int] = []
    candidates = _CHOICE.sample(range(_LOWEST, _lowest_ephemeral()), 1000)
    for port in candidates:
        if is_free(port) and _claim(port):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise ConfigurationError(f"no {count} free loopback ports; end some servers")


def _claim(port: int) -> bool:
    """Whether no other process has chosen this port, too, for a server that does not listen yet.

    The claim is a name in Linux' abstract namespace: it leaves no file, and ends with its process.
    """
    if sys.platform != "linux":
        return True
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0triumvir-port-{port}")
    except OSError:
        claim.close()
        return False
    _CLAIMS.append(claim)
    return True


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def all_free(ports: Iterable[int]) -> bool:
    return all(is_free(port) for port in ports)


def _lowest_ephemeral() -> int:
    setting = Path("/proc/sys/net/ipv4/ip_local_port_range")
    lowest = int(setting.read_text().split()[0]) if setting.is_file() else 32_768
    return lowest if lowest >= _LOWEST + 2000 else 32_768
