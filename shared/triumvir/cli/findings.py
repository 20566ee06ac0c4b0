"""What ``triumvir doctor`` says of one thing it looked at."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from triumvir.cli.output import duration

CLOCK_TOLERANCE: Final = timedelta(seconds=5)
"""Clocks that are further apart than this are told."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``problem`` and ``fix`` are None where all is well."""

    subject: str
    seen: str
    problem: str | None = None
    fix: str | None = None


def well(subject: str, seen: str) -> Finding:
    """All is well with ``subject``."""
    return Finding(subject, seen)


def ill(subject: str, problem: str, fix: str) -> Finding:
    """``problem`` says what is wrong in plain words, ``fix`` what to do, a command if there is one."""
    return Finding(subject, "", problem, fix)


def clock(
    whose: str, earliest: datetime, latest: datetime, before: datetime, after: datetime, why: str
) -> Finding:
    """Whether another machine's clock agrees with this one's.

    It was between ``earliest`` and ``latest`` there at some moment between ``before`` and ``after`` here; only
    what cannot be explained by that is a difference. ``why`` it matters is said with the fix.
    """
    subject = f"clock of the {whose}"
    if latest < before - CLOCK_TOLERANCE:
        apart, direction = before - latest, "behind"
    elif earliest > after + CLOCK_TOLERANCE:
        apart, direction = earliest - after, "ahead of"
    else:
        return well(subject, "agrees with this machine's")
    problem = f"it is {duration(apart)} {direction} this machine's"
    return ill(subject, problem, f"let both machines follow a time server (NTP); {why}")
