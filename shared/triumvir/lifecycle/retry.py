"""Retry maths: pure; the random draw comes in as an argument.

>>> from datetime import timedelta
>>> policy = RetryPolicy(timedelta(seconds=10), timedelta(seconds=3), max_retries=2, jitter_factor=0)
>>> [offset.total_seconds() for offset in (retry_offset(policy, n, 0.5) for n in (1, 2)) if offset]
[3.0, 6.0]
>>> retry_offset(policy, 3, 0.5) is None
True
>>> [reopen_backoff(k, timedelta(seconds=1), timedelta(seconds=60)).total_seconds() for k in (1, 2, 3, 9)]
[1.0, 2.0, 4.0, 60.0]
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

_DOUBLINGS: Final = 60
"""More would only leave the range of a float; every result is capped long before."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a request may take and how often it is sent again while unanswered."""

    timeout: timedelta
    interval: timedelta
    max_retries: int
    jitter_factor: float


def retry_offset(policy: RetryPolicy, n: int, draw: float) -> timedelta | None:
    """When re-send ``n`` (from 1) is due, counted from the first send: ``interval * 2^(n-1)``, jittered by
    ``draw`` (0 to 1). None if there is no such re-send: too many, or not before the timeout.
    """
    if n > policy.max_retries:
        return None
    seconds = policy.interval.total_seconds() * 2.0 ** min(n - 1, _DOUBLINGS)
    seconds *= 1 + policy.jitter_factor * (2 * draw - 1)
    return timedelta(seconds=seconds) if seconds < policy.timeout.total_seconds() else None


def reopen_backoff(failures: int, first: timedelta, longest: timedelta) -> timedelta:
    """Wait before the attempt that follows the ``failures``-th failure: doubling from ``first``, capped."""
    seconds = first.total_seconds() * 2.0 ** min(failures - 1, _DOUBLINGS)
    return timedelta(seconds=min(longest.total_seconds(), seconds))
