"""The submitter's process, wired top to bottom."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from triumvir.broker import ORDERS, core_topology
from triumvir.runtime.broker_link import open_broker
from triumvir.runtime.chassis import Chassis
from triumvir.runtime.drain import FLUSH, TAKING
from triumvir.runtime.intake import Intake
from triumvir.runtime.lease import Lease
from triumvir.runtime.loops import Loop
from triumvir.runtime.orders_database import orders_database, patient
from triumvir.runtime.relay import Relay
from triumvir.runtime.service import run_service
from triumvir.runtime.undeliverable import Undeliverable
from triumvir.store.session import Store
from triumvir_submitter.door import Door
from triumvir_submitter.replays import Replays


async def serve(chassis: Chassis) -> None:
    """Store, broker, the door."""
    settings = chassis.settings
    store = await chassis.enter(Store(settings, chassis.name))
    broker = await chassis.enter(open_broker(chassis, core_topology(quorum=settings.quorum_queues)))
    relay = Relay(broker.publisher, store.session("outbox"))
    undeliverable = Undeliverable(store.session("dead letters"), relay, settings)
    documents = await orders_database(chassis, store)
    instance = UUID(chassis.instance)
    door = Door(store.session("door"), relay, undeliverable, settings, instance, documents)
    again = store.session("replays")
    second_door = Door(again, relay, undeliverable, settings, instance, documents)
    replays = Replays(second_door, again, relay, settings)
    await Lease(chassis, store.session("lease")).start(chassis)
    consumer = await broker.consume(ORDERS, settings.prefetch)
    intake = Intake(
        consumer,
        door.handle,
        undeliverable.quarantine,
        store.session("marks"),
        settings.batch_limit,
        "submitter.after_ack",
    )
    chassis.add_loop(Loop("orders", patient(intake.step), settings.poll_interval))
    chassis.add_loop(Loop("replays", patient(replays.step), settings.poll_interval))
    chassis.add_readiness("database", store.ready)
    chassis.on_drain("stop taking", broker.stop_taking, order=TAKING)
    chassis.on_drain("relay", relay.drain, order=FLUSH)


def main(args: Sequence[str] = ()) -> None:
    """Runs the submitter until it is told to stop."""
    run_service("submitter", serve, args=args)
