"""What takes requests in an agent's process: a consumer for each agent, and the sweep of replies that are due."""

from __future__ import annotations

from collections.abc import Mapping

from triumvir.agent import Agent
from triumvir.broker import agent_queue
from triumvir.runtime.broker_link import BrokerLink
from triumvir.runtime.chassis import Chassis
from triumvir.runtime.drain import LOOPS
from triumvir.runtime.loops import Loop
from triumvir_agent.sweeping import Sweep
from triumvir_agent.taking import PATIENCE, Taking
from triumvir_agent.worker import Desk, Worker


async def take_requests(
    agents: Mapping[str, Agent], desk: Desk, broker: BrokerLink, chassis: Chassis
) -> None:
    """Subscribes for each agent, with slots of its own."""
    settings, takings = chassis.settings, list[Taking]()
    patience = PATIENCE * settings.drain_timeout.total_seconds()
    for name, agent in agents.items():
        consumer = await broker.consume(agent_queue(name), settings.slots, ack="single")
        taking = Taking(consumer, Worker(agent, desk, settings.slots), settings.slots, patience)
        takings.append(taking)
        chassis.add_loop(Loop(f"requests {name}", taking.step, settings.poll_interval))
        chassis.add_readiness(f"agent {name}", taking.ready)
        chassis.on_drain(f"requests of {name}", taking.drain, order=LOOPS + 1)
    sweep = Sweep(desk.inbox, desk.publishes, lambda: any(taking.is_busy_early for taking in takings))
    chassis.add_loop(Loop("due replies", sweep.step, settings.outbox_lease))
