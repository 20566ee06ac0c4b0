from __future__ import annotations

import doctest
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from triumvir.lifecycle import policies, retry
from triumvir.lifecycle.retry import RetryPolicy, reopen_backoff, retry_at, retry_delay

SECOND = timedelta(seconds=1)
FIRST = datetime(2030, 1, 1, tzinfo=UTC)


def policy(*, timeout: float = 10, interval: float = 3, retries: int = 2, jitter: float = 0.2) -> RetryPolicy:
    return RetryPolicy(timeout * SECOND, interval * SECOND, retries, jitter)


def test_the_table_in_the_documentation_of_retries_holds() -> None:
    for module in (retry, policies):
        failed, tried = doctest.testmod(module)
        assert tried > 0
        assert failed == 0


def seconds_of(policy: RetryPolicy, draw: float = 0.5) -> list[float]:
    """When its re-sends go out, in seconds after the first send."""
    sent: list[float] = []
    now = FIRST
    while (due := retry_at(policy, len(sent) + 1, draw, FIRST, now)) is not None:
        sent.append((due - FIRST) / SECOND)
        now = due
    return sent


def test_the_reference_table_of_retries_holds() -> None:
    assert seconds_of(policy(jitter=0)) == [3, 6]


def test_retries_may_count_from_the_send_before_and_still_end_at_the_timeout() -> None:
    by_previous = replace(policy(timeout=100, retries=9, jitter=0), origin="previous-call")
    assert seconds_of(by_previous) == [3, 9, 21, 45, 93]


def test_delays_of_ones_own_stand_in_for_interval_and_count() -> None:
    own = replace(policy(timeout=100, retries=0, jitter=0), custom_backoffs=(20 * SECOND, 40 * SECOND))
    assert seconds_of(own) == [20, 40]
    assert seconds_of(replace(own, origin="previous-call")) == [20, 60]
    assert seconds_of(replace(own, custom_backoffs=())) == []


@pytest.mark.parametrize(("draw", "seconds"), [(0.0, 2.4), (0.5, 3.0), (1.0, 3.6)])
def test_jitter_moves_a_retry_by_its_factor_both_ways(draw: float, seconds: float) -> None:
    assert retry_delay(policy(), 1, draw) == seconds * SECOND


def test_no_retry_comes_at_or_after_the_timeout() -> None:
    assert seconds_of(policy(timeout=6, jitter=0)) == [3]
    assert seconds_of(policy(timeout=6.1, jitter=0)) == [3, 6]
    assert seconds_of(policy(timeout=7), 1.0) == [3.6]


def test_no_retries_means_none() -> None:
    assert seconds_of(policy(retries=0)) == []


def test_a_back_off_without_a_first_wait_stays_without() -> None:
    assert reopen_backoff(5, 0 * SECOND, 60 * SECOND) == 0 * SECOND


def test_no_number_of_failures_or_retries_overflows() -> None:
    assert reopen_backoff(10_000, 3600 * SECOND, 60 * SECOND) == 60 * SECOND
    assert retry_at(policy(interval=3600, retries=10_000), 9_999, 0.5, FIRST, FIRST) is None
