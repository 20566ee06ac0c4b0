"""The shop's agents in a trial against its real services, which are slow, busy and unreliable: what an author tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from itertools import count

import pytest

from shop import agents
from shop.processes import Service
from shop.services.chance import is_unlucky
from shop.services.ledger import read
from shop.settings import ShopSettings
from tests.unit.shop.test_shop_rehearsal import ORDER
from triumvir.agent import Agent
from triumvir.testing import AgentTrial

SEED = 1
REFUSED_SHARE = 0.5
"""More than any service refuses."""


def lucky() -> Iterator[str]:
    """Orders that no service refuses for no other reason than chance."""
    ids = (f"trial-{n}" for n in count())
    return (one for one in ids if not is_unlucky(SEED, f"trial/{one}/tried/do/0", REFUSED_SHARE))


@pytest.mark.parametrize(
    ("name", "agent", "operation"),
    [("payments", agents.payments, "charge-card"), ("inventory", agents.inventory, "reserve-stock")],
)
async def test_an_agent_of_the_shop_keeps_what_it_owes(
    run_service: Callable[..., Awaitable[Service]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    agent: Agent,
    operation: str,
) -> None:
    service = await run_service(name, seed=SEED)
    chosen = ShopSettings.model_validate({f"{name}_url": service.url, "patience": 20})
    monkeypatch.setattr(agents, "settings", chosen)

    def net(order: str, _: str) -> int:
        """By the ledger of the service, what was done for an order and not undone."""
        entries = [entry for entry in read(service.ledger) if (entry.kind, entry.order) == ("effect", order)]
        return sum(1 if entry.direction == "do" else -1 for entry in entries)

    trial = AgentTrial(agent, {operation: ORDER}, count_effects=net, seconds=60, calls=10, order_ids=lucky())
    report = await trial.run()
    assert report.sound, report
