"""Loaded by a service with this folder on its path: its clock is off by FAULTS_CLOCK_SHIFT seconds."""

from __future__ import annotations

import datetime
import os
import sys
import time
from typing import Any

_SHIFT = float(os.environ["FAULTS_CLOCK_SHIFT"])
_time, _time_ns, _genuine = time.time, time.time_ns, datetime.datetime
time.time = lambda: _time() + _SHIFT
time.time_ns = lambda: _time_ns() + int(_SHIFT * 1_000_000_000)


class _Kind(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _genuine)


class _Datetime(_genuine, metaclass=_Kind):  # type: ignore[misc,valid-type]
    """Every value it makes is a plain datetime: others could not be written as JSON."""

    __slots__ = ()

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        return _genuine(*arguments, **named)

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return _genuine.now(tz) + datetime.timedelta(seconds=_SHIFT)

    @classmethod
    def utcnow(cls) -> Any:
        return _genuine.now(datetime.UTC).replace(tzinfo=None) + datetime.timedelta(seconds=_SHIFT)


datetime.datetime = _Datetime  # type: ignore[misc]
sys.stderr.write(f"clock shifted by {_SHIFT:.0f} s\n")
sys.stderr.flush()
