"""Retry maths: pure; the random draw comes in as an argument.

>>> from datetime import timedelta
>>> policy = RetryPolicy(timedelta(seconds=10), timedelta(seconds=3), max_retries=2, jitter_factor=0)
>>> [delay.total_seconds() for delay in (retry_delay(policy, n, 0.5) for n in (1, 2)) if delay]
[3.0, 6.0]
>>> retry_delay(policy, 3, 0.5) is None
True
>>> [reopen_backoff(k, timedelta(seconds=1), timedelta(seconds=60)).total_seconds() for k in (1, 2, 3, 9)]
[1.0, 2.0, 4.0, 60.0]
>>> patient = RetryPolicy(
...     timedelta(seconds=10), timedelta(seconds=3), 2, 0.2, max_failures=2, cool_offs=(timedelta(minutes=5),)
... )
>>> [wait and wait.total_seconds() for wait in (next_attempt(patient, k, 0.5) for k in (1, 2, 3, 4))]
[1.0, 2.0, 300.0, None]
>>> [next_attempt(patient, 3, draw).total_seconds() for draw in (0.0, 1.0)]
[240.0, 360.0]
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
    ``custom_backoffs`` stand in for these delays, and for ``max_retries``. After ``max_failures`` failed attempts the
    step is tried once more after each of its ``cool_offs``. ``undo_budget``: calls of its undo beyond the first.
    ``recovery_delay``: how soon the next retry is due once whoever sent the request is gone; 0: as it was.
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
    cool_offs: tuple[timedelta, ...] = ()
    undo_budget: int = 30
    recovery_delay: timedelta = timedelta(seconds=3)
    on_timeout: str | None = None
    """The name of the step that a time-out leads to."""


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


def next_attempt(policy: RetryPolicy, failures: int, draw: float) -> timedelta | None:
    """Wait between the ``failures``-th failure (from 1) and the next attempt; None if there is none, and the step has
    failed for good. Jittered by ``draw`` (0 to 1): what failed together does not come back together.
    """
    cooled = failures - policy.max_failures
    if cooled <= 0:
        wait = reopen_backoff(failures, policy.reopen_backoff, policy.reopen_backoff_max)
    elif cooled <= len(policy.cool_offs):
        wait = policy.cool_offs[cooled - 1]
    else:
        return None
    return spread(wait, policy.jitter_factor, draw)


def spread(wait: timedelta, factor: float, draw: float) -> timedelta:
    """``wait``, longer or shorter by up to that share of itself."""
    return wait * (1 + factor * (2 * draw - 1))
