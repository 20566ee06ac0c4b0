"""Retry maths: pure; the random draw comes in as an argument.

>>> from datetime import timedelta
>>> policy = RetryPolicy(timedelta(seconds=10), timedelta(seconds=3), max_retries=2, jitter_factor=0)
>>> [delay.total_seconds() for delay in (retry_delay(policy, n, 0.5) for n in (1, 2)) if delay]
[3.0, 6.0]
>>> retry_delay(policy, 3, 0.5) is None
True
>>> [reopen_backoff(k, timedelta(seconds=1), timedelta(seconds=60)).total_seconds() for k in (1, 2, 3, 9)]
[1.0, 2.0, 4.0, 60.0]
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from triumvir.lifecycle.policies import Origin

_DOUBLINGS: Final = 60
"""More would only leave the range of a float; every result is capped long before."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a request may take, how often it is sent again while unanswered, and how often the step is tried.

    Retry n is due ``interval * 2^(n-1)`` after the first send, or after the previous one (``origin``);
    ``custom_backoffs`` stand in for these delays, and for ``max_retries``.
    """

    timeout: timedelta
    interval: timedelta
    max_retries: int
    jitter_factor: float
    origin: Origin = "first-call"
    custom_backoffs: tuple[timedelta, ...] | None = None
    max_failures: int = 3
    reopen_backoff: timedelta = timedelta(seconds=1)
    reopen_backoff_max: timedelta = timedelta(seconds=60)


def retry_delay(policy: RetryPolicy, n: int, draw: float) -> timedelta | None:
    """How long after the origin re-send ``n`` (from 1) is due, jittered by ``draw`` (0 to 1). None if there are not
    so many.
    """
    if policy.custom_backoffs is not None:
        if n > len(policy.custom_backoffs):
            return None
        seconds = policy.custom_backoffs[n - 1].total_seconds()
    elif n > policy.max_retries:
        return None
    else:
        seconds = policy.interval.total_seconds() * 2.0 ** min(n - 1, _DOUBLINGS)
    seconds *= 1 + policy.jitter_factor * (2 * draw - 1)
    return timedelta(seconds=min(seconds, policy.timeout.total_seconds()))


def retry_at(policy: RetryPolicy, n: int, draw: float, first: datetime, now: datetime) -> datetime | None:
    """When re-send ``n`` is due, by the time of the ``first`` send and of the one just made (``now``). None if there
    is none: too many, or not before the timeout, which counts from the first send.
    """
    delay = retry_delay(policy, n, draw)
    if delay is None:
        return None
    due = (first if policy.origin == "first-call" else now) + delay
    return due if due < first + policy.timeout else None


def reopen_backoff(failures: int, first: timedelta, longest: timedelta) -> timedelta:
    """Wait before the attempt that follows the ``failures``-th failure: doubling from ``first``, capped."""
    seconds = first.total_seconds() * 2.0 ** min(failures - 1, _DOUBLINGS)
    return timedelta(seconds=min(longest.total_seconds(), seconds))
