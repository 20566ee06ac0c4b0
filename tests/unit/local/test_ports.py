"""Ports for private servers."""

from __future__ import annotations

import pytest

from triumvir.local import ports


class Choice:
    """Chance that always chooses the same."""

    def __init__(self) -> None:
        self._free = [port for port in range(20_000, 21_000) if ports.is_free(port)]

    def sample(self, among: range, count: int) -> list[int]:
        return self._free


def test_two_servers_that_do_not_listen_yet_never_get_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_CHOICE", Choice())
    first, second = ports.free_ports(3), ports.free_ports(3)
    assert len({*first, *second}) == 6
