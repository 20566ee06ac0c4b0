"""Which requests are acknowledged early, and how often replies are swept."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest

from tests.integration.store.requests import request
from triumvir.broker import Outcome as Published
from triumvir.broker import OutMessage
from triumvir.errors import ConfigurationError
from triumvir.runtime.gather import Gatherer
from triumvir.settings import load, of_defaults
from triumvir_agent.early import DueReply, EarlyAcks
from triumvir_agent.inbox import Inbox
from triumvir_agent.sweeping import SELDOM_LEASES, WATCHFUL_LEASES, Sweep

LEASE = 10.0


class Rows:
    """Stands for the inbox: counts how often it is asked."""

    early = EarlyAcks(lease=timedelta(seconds=LEASE))

    def __init__(self) -> None:
        self.asked = 0

    async def take_due(self, most: int) -> list[DueReply]:
        self.asked += 1
        return []


class Swept:
    """A sweep at times that the test sets."""

    def __init__(self) -> None:
        self.now, self.busy, self.rows = 0.0, False, Rows()
        publishes: Gatherer[OutMessage, Published] = Gatherer(self._publish, 1)
        self.sweep = Sweep(cast("Inbox", self.rows), publishes, lambda: self.busy, lambda: self.now)

    async def at(self, now: float) -> int:
        """How often the inbox was asked by then."""
        self.now = now
        await self.sweep.step()
        return self.rows.asked

    async def _publish(self, messages: list[OutMessage]) -> list[Published]:
        raise AssertionError("nothing is due")


@pytest.mark.parametrize(
    ("left_ms", "early"), [(900_000, False), (900_001, True), (3_600_000, True), (10_000, False)]
)
def test_more_than_half_of_what_the_broker_waits_is_acknowledged_early(left_ms: int, early: bool) -> None:
    asked = request().model_copy(update={"time_left_ms": left_ms})
    assert EarlyAcks.of(of_defaults({})).take(asked) is early


def test_a_request_that_only_asks_is_answered_at_once() -> None:
    asked = request().model_copy(update={"time_left_ms": 10_000_000, "attempts_allowed": 0})
    assert not EarlyAcks().take(asked)


@pytest.mark.parametrize("value", ["0", "0.5", "-1", "31536001", "soon"])
def test_a_consumer_timeout_that_cannot_be_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("TRIUMVIR_CONSUMER_TIMEOUT", value)
    with pytest.raises(ConfigurationError, match="TRIUMVIR_CONSUMER_TIMEOUT"):
        load()


async def test_the_inbox_is_looked_at_after_the_start_and_seldom_afterwards() -> None:
    swept = Swept()
    assert await swept.at(0.0) == 1
    assert await swept.at((WATCHFUL_LEASES - 1) * LEASE) == 2
    assert await swept.at(WATCHFUL_LEASES * LEASE) == 2
    assert await swept.at((WATCHFUL_LEASES - 1 + SELDOM_LEASES) * LEASE - 1) == 2
    assert await swept.at((WATCHFUL_LEASES - 1 + SELDOM_LEASES) * LEASE) == 3


async def test_with_early_acknowledged_requests_in_hand_it_is_looked_at_each_time() -> None:
    swept = Swept()
    swept.busy = True
    assert [await swept.at(n * 100.0) for n in range(1, 4)] == [1, 2, 3]
