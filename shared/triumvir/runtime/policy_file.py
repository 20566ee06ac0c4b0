"""The policy file: recovery settings by ``Flow.State.Action``, in TOML. Every fault is told with file, line and fix."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast

from triumvir.contracts.names import is_name
from triumvir.errors import DefinitionFileError
from triumvir.lifecycle import ANY, PolicyLine, Setting, Value
from triumvir.workflow.durations import duration_of

MOST_RETRIES: Final = 100
MOST_CALLS: Final = 100_000


class Unfit(ValueError):
    """A value that its setting cannot take. The text names the fix."""


def read_policies(path: str) -> tuple[PolicyLine, ...]:
    """The lines of a policy file. Raises DefinitionFileError, one line for each fault."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise DefinitionFileError([f"{path}: cannot be read: {error.strerror or error}"]) from None
    except UnicodeDecodeError:
        raise DefinitionFileError([f"{path}: is no UTF-8 text; save it as UTF-8"]) from None
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DefinitionFileError([f"{path}:{_plain(error, len(text.splitlines()))}"]) from None
    return _Reader(path, text).lines(tables)


def _plain(error: tomllib.TOMLDecodeError, rows: int) -> str:
    """Row, column and problem; ``rows`` is the last row, where a file ends too soon."""
    found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error))
    return f"{found[2]}:{found[3]}: {found[1]}; write TOML" if found else f"{rows}: {error}; write TOML"


class _Reader:
    """Turns the tables of one file into lines, and its faults into words."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._rows = text.splitlines()
        self._faults: list[str] = []

    def lines(self, tables: Mapping[str, Any]) -> tuple[PolicyLine, ...]:
        found = [line for name, table in tables.items() for line in self._table(name, table)]
        self._faults += going_round(found)
        if self._faults:
            raise DefinitionFileError(self._faults)
        return tuple(found)

    def _table(self, name: str, table: Any) -> Iterator[PolicyLine]:
        segments = name.split(".")
        example = '["Any.Any.Any"], or ["order-fulfilment.charge.charge-card"]'
        if not isinstance(table, dict) or any(isinstance(value, dict) for value in table.values()):
            self._fault(name, None, f"is no table of one action; write {example}, in quotes")
        elif len(segments) != 3:
            self._fault(
                name, None, f"has {len(segments)} segments, not flow, state and action; write {example}"
            )
        elif wrong := [part for part in segments if part != ANY and not is_name(part)]:
            self._fault(name, None, f"{wrong[0]!r} is no name; write a name, or {ANY}")
        else:
            for key, value in table.items():
                yield from self._line((segments[0], segments[1], segments[2]), name, key, value)

    def _line(self, pattern: tuple[str, str, str], table: str, key: str, value: Any) -> Iterator[PolicyLine]:
        read = _READ.get(key)
        if read is None:
            close = get_close_matches(key, _READ, 1)
            fix = f"did you mean {close[0]}?" if close else f"write one of {', '.join(_READ)}"
            self._fault(table, key, f"is no setting; {fix}")
            return
        if key == "retry-budget" and pattern[1:] != (ANY, ANY):
            flow = f'["{pattern[0]}.{ANY}.{ANY}"]'
            self._fault(table, key, f"is one for all steps of an order; write it under {flow}")
            return
        try:
            yield PolicyLine(
                pattern, cast(Setting, key), read(value), f"{self._path}:{self._row(table, key)}"
            )
        except ValueError as error:
            self._fault(table, key, str(error))

    def _fault(self, table: str, key: str | None, problem: str) -> None:
        where = f'["{table}"]' + (f" {key}" if key else "")
        self._faults.append(f"{self._path}:{self._row(table, key)}: {where}: {problem}")

    def _row(self, table: str, key: str | None) -> int:
        """The row, from 1, on which a table begins, or has a key."""
        head = re.compile(rf"\s*\[\s*[\"']?{re.escape(table)}[\"'.\s\]]")
        start = next((n for n, row in enumerate(self._rows) if head.match(row)), 0)
        if key is None:
            return start + 1
        named = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=")
        return next((n for n, row in enumerate(self._rows[start:], start) if named.match(row)), start) + 1


def going_round(lines: Sequence[PolicyLine]) -> Iterator[str]:
    """A fault for each time-out that leads back to its own step, by the names in the file alone."""
    leads = [line for line in lines if line.setting == "on-timeout" and line.value]
    for line in leads:
        way = [line.pattern[1], str(line.value)]
        while way[-1] not in way[:-1]:
            onward = (each for each in leads if each.pattern[1] == way[-1] and _share_a_flow(line, each))
            following = next(onward, None)
            if following is None:
                break
            way.append(str(following.value))
        if way[-1] == way[0]:
            named = f'["{".".join(line.pattern)}"] on-timeout'
            yield f"{line.source}: {named}: leads back to its own step, {' -> '.join(way)}; name a later step"


def _share_a_flow(one: PolicyLine, other: PolicyLine) -> bool:
    return ANY in (one.pattern[0], other.pattern[0]) or one.pattern[0] == other.pattern[0]


def _duration(value: Any) -> Value:
    if not isinstance(value, str):
        raise Unfit(f'is {value!r}; give a duration in quotes, such as "30s"')
    return duration_of(value)


def _durations(value: Any) -> Value:
    if not isinstance(value, list):
        raise Unfit(f'is {value!r}; give a list of durations, such as ["20s", "40s"]')
    delays = tuple(duration_of(delay) if isinstance(delay, str) else _no_duration(delay) for delay in value)
    if len(delays) > MOST_RETRIES:
        raise Unfit(f"has {len(delays)} delays; give {MOST_RETRIES} at most")
    return delays


def _no_duration(value: Any) -> Any:
    raise Unfit(f"holds {value!r}; give durations in quotes")


def _count(value: Any) -> Value:
    if type(value) is not int or not 0 <= value <= MOST_RETRIES:
        raise Unfit(f"is {value!r}; give a whole number from 0 to {MOST_RETRIES}")
    return value


def _budget(value: Any) -> Value:
    if type(value) is not int or not 0 <= value <= MOST_CALLS:
        raise Unfit(f"is {value!r}; give a whole number from 0 to {MOST_CALLS}")
    return value


def _delay(value: Any) -> Value:
    return timedelta() if value in ("0", "0s") else _duration(value)


def _factor(value: Any) -> Value:
    if type(value) not in (int, float) or not 0 <= value < 1:
        raise Unfit(f"is {value!r}; give a number from 0 to below 1")
    return float(value)


def _step(value: Any) -> Value:
    if value is False:
        return ""
    if not isinstance(value, str) or not is_name(value):
        raise Unfit(f"is {value!r}; give the name of a later step in quotes, or false for none")
    return value


def _origin(value: Any) -> Value:
    if value not in ("first-call", "previous-call"):
        raise Unfit(f'is {value!r}; write "first-call" or "previous-call"')
    return str(value)


_READ: Final[Mapping[str, Callable[[Any], Value]]] = {
    "timeout-duration": _duration,
    "initial-retry-interval": _duration,
    "max-retries": _count,
    "jitter-factor": _factor,
    "backoff-origin": _origin,
    "custom-backoffs": _durations,
    "max-failures": _count,
    "reopen-backoff": _duration,
    "reopen-backoff-max": _duration,
    "cool-offs": _durations,
    "retry-budget": _budget,
    "undo-retry-budget": _budget,
    "action-recovery-delay": _delay,
    "on-timeout": _step,
}
