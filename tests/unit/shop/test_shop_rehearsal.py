"""The shop's own agents and workflow, rehearsed: what a shop's author would test, with the remote services replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shop import agents, bookings
from shop.workflow import order_fulfilment
from triumvir.testing import Rehearsal

ORDER = {
    "order_id": "536365",
    "placed_at": "2010-12-01T08:26:00",
    "customer_id": "17850",
    "country": "France",
    "lines": [{"sku": "85123A", "quantity": 6, "unit_price": "2.55"}],
}
ANSWERS: dict[str, dict[str, Any]] = {
    "reservations": {"reservation": "r-1", "units": 6},
    "charges": {"receipt": "p-1", "amount": "15.30"},
    "quotes": {"courier": "swift", "price": "4.20"},
}
UNDOES = {"releases": "reservations", "refunds": "charges"}


class Services:
    """Stock, payments and couriers as the shop sees them: each key once. ``net`` is what is left of effects."""

    def __init__(self) -> None:
        self.net: Counter[str] = Counter()
        self._keys: set[str] = set()

    async def call(self, url: str, body: dict[str, Any], *, key: str, **_: Any) -> dict[str, Any]:
        """Stands in for ``shop.remote.call``."""
        name = url.rpartition("/")[2]
        if key not in self._keys and name != "quotes":
            self._keys.add(key)
            undone = UNDOES.get(name)
            if undone is None:
                self.net[name] += 1
            else:
                self.net[undone] = max(0, self.net[undone] - 1)
        return ANSWERS.get(name, {})

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Stands in for the database of the bookings."""
        written = Written()
        yield written
        self.net["bookings"] = max(0, self.net["bookings"] + written.bookings)


class Written:
    """What one transaction has written so far."""

    def __init__(self) -> None:
        self.bookings = 0

    async def execute(self, sql: str, *_: Any) -> None:
        self.bookings += {bookings.BOOK: 1, bookings.CANCEL: -1}[sql]


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Services:
    services = Services()
    monkeypatch.setattr("shop.remote.call", services.call)
    return services


@pytest.fixture
def rehearsal(services: Services) -> Rehearsal:
    all_agents = [agents.orders, agents.inventory, agents.payments, agents.shipping]
    return Rehearsal(order_fulfilment, agents=all_agents, connect=services.transaction)


async def test_an_order_is_fulfilled(rehearsal: Rehearsal, services: Services) -> None:
    outcome = await rehearsal.run(ORDER)
    assert (outcome.state, outcome.result) == ("processed", ANSWERS["quotes"])
    assert services.net == {"reservations": 1, "charges": 1, "bookings": 1}


async def test_what_cannot_be_sold_ends_with_nothing_to_undo(
    rehearsal: Rehearsal, services: Services
) -> None:
    outcome = await rehearsal.run({**ORDER, "lines": []})
    assert (outcome.state, outcome.told) == ("compensated", ["received", "compensating", "compensated"])
    assert [call.operation for call in outcome.calls] == ["check-order"]
    assert services.net.total() == 0


async def test_no_courier_means_money_and_stock_go_back(rehearsal: Rehearsal, services: Services) -> None:
    rehearsal.fail("ship", permanently="no courier goes there")
    outcome = await rehearsal.run(ORDER)
    assert outcome.state == "compensated"
    assert [call.operation for call in outcome.calls][-2:] == ["refund", "release-stock"]
    assert services.net.total() == 0


@pytest.mark.parametrize("step", ["reserve", "charge", "ship"])
@pytest.mark.parametrize("at", ["before_call", "after_call", "before_reply"])
async def test_an_agent_that_dies_anywhere_costs_nothing_but_time(
    rehearsal: Rehearsal, services: Services, step: str, at: Any
) -> None:
    rehearsal.die(step, at=at)
    outcome = await rehearsal.run(ORDER)
    assert outcome.state == "processed"
    assert services.net == {"reservations": 1, "charges": 1, "bookings": 1}
    assert outcome.unstruck == ()


@pytest.mark.parametrize("step", ["reserve", "charge", "ship"])
async def test_a_cancel_at_any_step_leaves_nothing_behind(
    rehearsal: Rehearsal, services: Services, step: str
) -> None:
    rehearsal.cancel_during(step)
    outcome = await rehearsal.run(ORDER)
    assert outcome.state == "compensated"
    assert services.net.total() == 0


async def test_a_charge_whose_answer_comes_after_its_refund_is_refunded(
    rehearsal: Rehearsal, services: Services
) -> None:
    rehearsal.pause("charge", by=120)
    rehearsal.cancel_at(1)
    outcome = await rehearsal.run(ORDER)
    assert outcome.state == "compensated"
    assert len(outcome.calls_of("charge", "undo")) == 2
    assert services.net.total() == 0
