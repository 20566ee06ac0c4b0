"""The feed of all statuses is bounded: a reader that falls behind is cut off, and told."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from triumvir.client.feed import Feed
from triumvir.contracts.messages import Status
from triumvir.errors import BrokerError


def status(number: int) -> Status:
    return Status(order_id="1", status="received", sequence=number, at=datetime.now(UTC))


async def test_statuses_are_read_in_the_order_they_came() -> None:
    feed = Feed()
    feed.put(status(2))
    feed.put(status(1))
    assert [(await feed.next()).sequence for _ in range(2)] == [2, 1]


async def test_a_reader_that_falls_behind_reads_what_was_kept_and_is_then_told() -> None:
    feed = Feed(most=2)
    for number in (1, 2, 3, 4):
        feed.put(status(number))
    assert [(await feed.next()).sequence for _ in range(2)] == [1, 2]
    with pytest.raises(BrokerError, match="left unread"):
        await feed.next()


async def test_a_closed_client_ends_the_feed_after_what_is_there() -> None:
    feed = Feed()
    feed.put(status(1))
    feed.fail(BrokerError("the client is closed"))
    assert (await feed.next()).sequence == 1
    with pytest.raises(BrokerError, match="closed"):
        await feed.next()
