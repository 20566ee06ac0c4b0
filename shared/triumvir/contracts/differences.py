"""Two JSON values, member by member: where they differ, by JSON path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Difference:
    """One place. ``path`` is a normal JSON path (``$.payload.lines[2].price``; odd names in quotes).

    ``missing`` is only in the accepted document, ``added`` only in the dead one; the value of the other is None.
    """

    path: str
    kind: Literal["changed", "added", "missing"]
    accepted: Any
    dead: Any


def differences(accepted: Any, dead: Any, path: str = "$") -> Iterator[Difference]:
    """Where two values differ, in the order of the accepted one; nothing if their canonical forms are equal.

    Lists are compared place by place. ``1`` and ``1.0`` are one number; ``1`` and ``true`` are not one value.
    """
    if isinstance(accepted, dict) and isinstance(dead, dict):
        yield from _members(accepted, dead, path)
    elif isinstance(accepted, list) and isinstance(dead, list):
        yield from _places(accepted, dead, path)
    elif not _is_same(accepted, dead):
        yield Difference(path, "changed", accepted, dead)


def _members(accepted: dict[str, Any], dead: dict[str, Any], path: str) -> Iterator[Difference]:
    for name, value in accepted.items():
        if name in dead:
            yield from differences(value, dead[name], _member(path, name))
        else:
            yield Difference(_member(path, name), "missing", value, None)
    for name, value in dead.items():
        if name not in accepted:
            yield Difference(_member(path, name), "added", None, value)


def _places(accepted: list[Any], dead: list[Any], path: str) -> Iterator[Difference]:
    common = min(len(accepted), len(dead))
    for place in range(common):
        yield from differences(accepted[place], dead[place], f"{path}[{place}]")
    for place in range(common, len(accepted)):
        yield Difference(f"{path}[{place}]", "missing", accepted[place], None)
    for place in range(common, len(dead)):
        yield Difference(f"{path}[{place}]", "added", None, dead[place])


def _is_same(one: Any, other: Any) -> bool:
    """Python takes ``True`` for 1; JSON does not."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _member(path: str, name: str) -> str:
    if _PLAIN_NAME.fullmatch(name):
        return f"{path}.{name}"
    return f"{path}[{json.dumps(name, ensure_ascii=False)}]"
