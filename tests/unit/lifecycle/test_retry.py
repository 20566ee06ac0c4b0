from __future__ import annotations

import doctest
from datetime import timedelta

import pytest

from triumvir.lifecycle import retry
from triumvir.lifecycle.retry import RetryPolicy, reopen_backoff, retry_offset

SECOND = timedelta(seconds=1)


def policy(*, timeout: float = 10, interval: float = 3, retries: int = 2, jitter: float = 0.2) -> RetryPolicy:
    return RetryPolicy(timeout * SECOND, interval * SECOND, retries, jitter)


def test_the_table_in_the_documentation_of_retries_holds() -> None:
    failed, tried = doctest.testmod(retry)
    assert tried > 0
    assert failed == 0


@pytest.mark.parametrize(("draw", "seconds"), [(0.0, 2.4), (0.5, 3.0), (1.0, 3.6)])
def test_jitter_moves_a_retry_by_its_factor_both_ways(draw: float, seconds: float) -> None:
    assert retry_offset(policy(), 1, draw) == seconds * SECOND


def test_no_retry_comes_at_or_after_the_timeout() -> None:
    assert retry_offset(policy(timeout=6, jitter=0), 2, 0.5) is None
    assert retry_offset(policy(timeout=6.1, jitter=0), 2, 0.5) == 6 * SECOND
    assert retry_offset(policy(timeout=7), 2, 1.0) is None


def test_no_retries_means_none() -> None:
    assert retry_offset(policy(retries=0), 1, 0.5) is None


def test_a_back_off_without_a_first_wait_stays_without() -> None:
    assert reopen_backoff(5, 0 * SECOND, 60 * SECOND) == 0 * SECOND


def test_no_number_of_failures_or_retries_overflows() -> None:
    assert reopen_backoff(10_000, 3600 * SECOND, 60 * SECOND) == 60 * SECOND
    assert retry_offset(policy(interval=3600, retries=10_000), 9_999, 0.5) is None
