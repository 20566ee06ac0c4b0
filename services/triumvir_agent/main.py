"""The agent's process, wired top to bottom."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from triumvir.agent import Agent
from triumvir.broker import agent_topology, core_topology
from triumvir.errors import DefinitionError
from triumvir.runtime.broker_link import open_broker
from triumvir.runtime.chassis import Chassis
from triumvir.runtime.drain import FLUSH, TAKING
from triumvir.runtime.lease import Lease
from triumvir.runtime.relay import Relay
from triumvir.runtime.service import refuse_usage, run_service
from triumvir.runtime.undeliverable import Undeliverable
from triumvir.store.session import Store
from triumvir_agent.early import EarlyAcks
from triumvir_agent.inbox import Inbox
from triumvir_agent.retried import log_retries
from triumvir_agent.serving import take_requests
from triumvir_agent.targets import load
from triumvir_agent.transactions import Connections
from triumvir_agent.worker import open_desk


async def serve(agents: dict[str, Agent], chassis: Chassis) -> None:
    """Store, broker, inbox, a consumer for each agent."""
    settings, instance, quorum = chassis.settings, UUID(chassis.instance), chassis.settings.quorum_queues
    topology = sum((agent_topology(name, quorum=quorum) for name in agents), core_topology(quorum=quorum))
    store = await chassis.enter(Store(settings, chassis.name))
    broker = await chassis.enter(open_broker(chassis, topology))
    inbox = Inbox(store.session, instance, EarlyAcks.of(settings))
    relay = Relay(broker.publisher, store.session("outbox"))
    undeliverable = Undeliverable(store.session("dead letters"), relay, settings)
    connections = Connections(settings)
    desk = open_desk(inbox, broker.publisher, connections, undeliverable, settings)
    offers = [offer for agent in agents.values() for offer in agent.offers]
    await Lease(chassis, store.session("lease"), operations=offers, slots=settings.slots).start(chassis)
    await take_requests(agents, desk, broker, chassis)
    chassis.add_readiness("database", store.ready)
    chassis.on_drain("stop taking", broker.stop_taking, order=TAKING)
    chassis.on_drain("relay", relay.drain, order=FLUSH)
    chassis.on_drain("connections", connections.close, order=FLUSH)


def main(args: Sequence[str] = ()) -> None:
    """Runs the agents named by ``args`` (``module:attribute``) until told to stop."""
    try:
        agents = load(args)
    except DefinitionError as error:
        refuse_usage(str(error))
    log_retries()
    run_service("agent", partial(serve, agents))
