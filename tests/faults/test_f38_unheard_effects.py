"""F38: a step that timed out did have its effect; and a request that lands after its undo."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest

from tests.faults.cluster import Cluster
from tests.waiting import eventually_true
from triumvir.broker import (
    INTERNAL_EXCHANGE,
    Binding,
    Connection,
    Consumer,
    Delivery,
    Outcome,
    OutMessage,
    Publisher,
    QueueSpec,
    Topology,
    agent_queue,
    connect,
    declare,
)
from triumvir.contracts.messages import StepCompensate, StepExecute
from triumvir.errors import OrderCompensated

pytestmark = pytest.mark.slow


@dataclass
class Spy:
    """Gets a copy of every request, and can send it once more."""

    connection: Connection
    consumer: Consumer

    async def requests(self, kind: str, within: float = 1.0) -> list[Delivery]:
        """Those of this type that were sent so far."""
        found: list[Delivery] = []
        try:
            async with asyncio.timeout(within):
                while True:
                    found += (arrived := await self.consumer.batch(500))
                    await self.consumer.settle(arrived)
        except TimeoutError:
            pass
        return [delivery for delivery in found if delivery.type == kind]

    async def send_again(self, deliveries: Sequence[Delivery]) -> None:
        """Each to the agent it was for; the copies that come here in turn are settled, too."""
        for delivery in deliveries:
            await self._send(delivery, "money" if "/charge/" in (delivery.message_id or "") else "goods")
        await self.requests("")

    async def _send(self, delivery: Delivery, agent: str) -> None:
        message = OutMessage(
            INTERNAL_EXCHANGE, agent_queue(agent), delivery.message_id or "", delivery.type or "",
            delivery.correlation_id or "", delivery.body,
        )  # fmt: skip
        publisher = Publisher(self.connection)
        assert await publisher.publish([message]) == [Outcome.CONFIRMED]
        await publisher.close()


@pytest.fixture
async def spy(cluster: Cluster) -> AsyncIterator[Spy]:
    connection = await connect(cluster.settings.broker_url, "spy")
    queues = (QueueSpec("spy", (("x-queue-type", "classic"),)),)
    bindings = tuple(Binding(INTERNAL_EXCHANGE, "spy", agent_queue(agent)) for agent in ("goods", "money"))
    await declare(connection, Topology(queues=queues, bindings=bindings))
    consumer = Consumer(connection, "spy", 5000)
    await consumer.start()
    yield Spy(connection, consumer)
    await consumer.close()
    await connection.close()


async def test_f38_a_step_that_was_never_heard_of_is_undone_if_it_had_its_effect(cluster: Cluster) -> None:
    await cluster.start()
    order = await cluster.load.submit_one("unheard", {"charge": {"drop": 1000}})
    with pytest.raises(OrderCompensated):
        await order.result(timeout=60)
    await cluster.assert_sound()
    effects = [(effect.step, effect.direction) for effect in (await cluster.ledger()).effects]
    assert effects == [
        ("reserve", "do"), ("book", "do"), ("charge", "do"),
        ("charge", "undo"), ("book", "undo"), ("reserve", "undo"),
    ]  # fmt: skip
    tried = Counter((call.step, call.direction) for call in cluster.downstream.calls())
    settings = cluster.settings
    assert tried["charge", "do"] == settings.calls_per_request * (settings.max_failures + 1)


async def test_f38_requests_that_land_after_their_undo_are_refused(cluster: Cluster, spy: Spy) -> None:
    """Their deadlines have not passed: only the inbox stands in their way."""
    cluster.tune(step_timeout="60", retry_interval="20")
    await cluster.start()
    order = await cluster.load.submit_one("undone", {"charge": {"drop": 1000}})
    with pytest.raises(OrderCompensated):
        await order.result(timeout=60)
    calls = len(cluster.downstream.calls())
    late = await spy.requests(StepExecute.TYPE)
    attempts = cluster.settings.max_failures + 1
    assert len(late) == 2 + attempts
    await spy.send_again(late)
    await eventually_refused(cluster, attempts - 1)
    await cluster.assert_sound()
    assert len(cluster.downstream.calls()) == calls, "nothing was called"


async def test_f38_an_undo_sent_again_has_one_effect(cluster: Cluster, spy: Spy) -> None:
    cluster.tune(step_timeout="60", retry_interval="20")
    await cluster.start()
    order = await cluster.load.submit_one("undone", {"charge": {"fail": "permanent"}})
    with pytest.raises(OrderCompensated):
        await order.result(timeout=60)
    calls = len(cluster.downstream.calls())
    again = await spy.requests(StepCompensate.TYPE)
    assert len(again) == 2
    await spy.send_again(again)
    await cluster.load.submit(8, "good")
    await cluster.settle()
    seen: list[Delivery] = []
    while len(seen) < 8 * 3:  # what the spy has not settled is left over, to the auditor
        seen += await spy.requests(StepExecute.TYPE)
    await cluster.assert_sound()
    assert len(cluster.downstream.calls()) == calls + 8 * 3, "the answer came from the inbox"


async def eventually_refused(cluster: Cluster, times: int) -> None:
    async def refusals() -> bool:
        return bool(
            await cluster.database.fetchval(
                "select count(*) >= $1 from transitions where why like 'late answer%stale%'", times
            )
        )

    await eventually_true(refusals, within=60, what=f"{times} refusals")
