"""Spans of time as people write them: ``30s``, ``1m30s``, ``500ms``.

>>> duration_of("1m30s")
datetime.timedelta(seconds=90)
>>> spelled(duration_of("1.5h"))
'1h30m'
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

DURATION_PATTERN: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"
LONGEST: Final = timedelta(days=365)
"""A step may take so long."""
MILLISECOND: Final = timedelta(milliseconds=1)
_LONGEST_TEXT: Final = 40
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_UNITS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


def duration_of(text: str) -> timedelta:
    """What it says, in whole milliseconds, above zero and a year at most. Raises ValueError naming problem and fix."""
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        raise ValueError(f"is {text!r:.80} without a unit; write {text:.20}s, or another of ms, s, m, h, d")
    if len(text) > _LONGEST_TEXT or not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(f"is {text!r:.80}; give a duration such as 30s, 500ms, 1.5h or 1m30s")
    total = sum((Decimal(number) * _UNITS[unit] for number, unit in _PART.findall(text)), Decimal(0))
    if total > LONGEST // MILLISECOND or total % 1 or total < 1:
        raise ValueError(f"is {text!r}; give whole milliseconds, above zero, a year at most")
    return timedelta(milliseconds=int(total))


def spelled(span: timedelta) -> str:
    """The shortest spelling of a span of whole milliseconds."""
    left, parts = span // MILLISECOND, ""
    for unit, size in _UNITS.items():
        count, left = divmod(left, size)
        parts += f"{count}{unit}" if count else ""
    return parts or "0ms"
