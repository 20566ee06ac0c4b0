"""The supervisor's process, wired top to bottom. ``--once``: one pass, then exit, for a cron job."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from triumvir.broker import core_topology
from triumvir.runtime.broker_link import open_broker
from triumvir.runtime.chassis import Chassis
from triumvir.runtime.decisions import Decider, sensible_policy
from triumvir.runtime.definitions import Definitions
from triumvir.runtime.drain import FLUSH, TAKING
from triumvir.runtime.lease import Lease
from triumvir.runtime.loops import Loop
from triumvir.runtime.orders_database import orders_database, patient
from triumvir.runtime.relay import Relay
from triumvir.runtime.service import run_service
from triumvir.runtime.undeliverable import Undeliverable
from triumvir.store.session import Store
from triumvir_supervisor.dead import DeadQueues
from triumvir_supervisor.lone import LoneDocuments
from triumvir_supervisor.passes import Passes
from triumvir_supervisor.upkeep import EVERY, Upkeep


async def serve(once: bool, chassis: Chassis) -> None:
    """Store, broker, the passes."""
    settings, instance = chassis.settings, UUID(chassis.instance)
    store = await chassis.enter(Store(settings, chassis.name))
    broker = await chassis.enter(open_broker(chassis, core_topology(quorum=settings.quorum_queues)))
    relay = Relay(broker.publisher, store.session("outbox"))
    decider = Decider(chassis.name, instance, settings, Definitions())
    documents = await orders_database(chassis, store)
    lone = LoneDocuments(store.session("lone documents"), relay, documents, settings, instance)
    passes = Passes(store, relay, decider, settings, documents)
    dead = DeadQueues(chassis, broker, store, Undeliverable(store.session("dead letters"), relay, settings))
    upkeep = Upkeep(store.session("upkeep"), settings, instance, dead.drain if once else dead.watch)
    await Lease(chassis, store.session("lease")).start(chassis)
    chassis.add_readiness("database", store.ready)
    chassis.on_drain("stop taking", broker.stop_taking, order=TAKING)
    chassis.on_drain("relay", relay.drain, order=FLUSH)
    if once:
        chassis.add_task("one pass", partial(passes.once, upkeep, lone, chassis.request_drain), forever=False)
        return
    chassis.add_loop(Loop("overdue", passes.step, settings.supervisor_interval))
    chassis.add_loop(Loop("upkeep", upkeep.step, EVERY))
    chassis.add_loop(Loop("aged orders", passes.aged.step, EVERY))
    chassis.add_loop(Loop("lone documents", patient(lone.step), EVERY))
    chassis.add_loop(Loop("purge", patient(passes.purge.step), EVERY))


def main(args: Sequence[str] = ()) -> None:
    """Runs the supervisor until it is told to stop; with ``--once`` for one pass."""
    run_service(
        "supervisor", partial(serve, "--once" in args), check=sensible_policy, args=args, known=["--once"]
    )
